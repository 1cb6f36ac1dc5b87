"""Prompts of a shared folder: whatever their templates try, nothing runs, nothing is read, nothing takes long."""

import time
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import ConfigError
from hab_ray.rubric import Rubric, RubricPart
from hab_ray.stages.prompts.sandbox import MAX_CPU_SECONDS, BadTemplate, safe_template
from hab_ray.stages.prompts.wording import load_prompts
from tests.stages.calls_of_prompts import RUBRICS
from tests.stages.judging import changed_prompts

CANARY = "canary-5f1c"


def nested(depth: int, body: str) -> str:
    """A body inside so many loops over two examples each."""
    opened = "".join(f"{{% for e{n} in rubric.judging.examples %}}" for n in range(depth))
    return opened + body + "{% endfor %}" * depth


HOSTILE = {
    "environment through lipsum": "{{ lipsum.__globals__['os'].environ['HAB_CANARY'] }}",
    "modules through our function": "{{ fence.__globals__ }}",
    "modules through our other function": "{{ verdict_json.__globals__['json'].codecs.sys.modules['os'].environ }}",
    "a command": "{{ lipsum.__globals__.os.system('touch canary') }}",
    "classes of a rubric": "{{ rubric.__class__.__mro__ }}",
    "classes by index": "{{ rubric['__class__'] }}",
    "classes by filter": "{{ rubric | attr('__class__') }}",
    "classes by map": "{{ rubric.judging.examples | map(attribute='__class__') | list }}",
    "classes by format": "{{ '{0.__class__.__init__.__globals__}'.format(rubric) }}",
    "a method of pydantic": "{{ rubric.model_dump() }}",
    "what no file has": "{{ rubric.sha256 }}",
    "what the digest leaves out": "{{ rubric.fidelity.equals }}",
    "what is inside the view": "{{ rubric._part }}",
    "a rubric as a whole": "{{ rubric }}",
    "a list as a whole": "{{ rubric.judging.examples }}",
    "a rubric as JSON": "{{ rubric | tojson }}",
    "a method of a text": "{{ prompt.upper() }}",
    "the template itself": "{{ self.__init__.__globals__ }}",
    "the loop's class": nested(1, "{{ loop.__class__ }}"),
    "the loop's method": nested(1, "{{ loop.changed }}"),
    "a recursive loop": "{% for e in rubric.judging.examples recursive %}{{ loop(e) }}{% endfor %}",
    "a value of another stage": "{{ theme }}",
    "our own budget": "{{ _budget.rounds }}",
    "our own budget as a loop's value": "{% for _budget in rubric.judging.examples %}x{% endfor %}",
    "our function as a loop's value": "{% for fence in rubric.judging.examples %}x{% endfor %}",
    "our own filter": "{{ rubric.judging.examples | _rounds }}",
    "another file": "{% include '/etc/passwd' %}",
    "another template": "{% extends 'base' %}",
    "a macro": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "a call block": "{% call fence('A', prompt) %}{% endcall %}",
    "an assignment": "{% set x = prompt %}{{ x }}",
    "doubling": "{% set x %}" + "{{ prompt }}" * 50 + "{% endset %}" + "{{ x }}" * 50,
    "a long text": "{{ 'a' * 10 ** 10 }}",
    "a large number": "{{ 10 ** 10 ** 10 }}",
    "a wide number by operator": "{{ '%1000000000d' % 1 }}",
    "a replaced text": "{{ prompt | replace('', prompt) }}",
    "a long loop": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "a loop over a text": "{% for c in prompt %}x{% endfor %}",
    "nested loops": nested(18, "x"),
    "nested loops that print nothing": nested(18, "{% if rubric.id == 'x' %}x{% endif %}"),
    "loops that compare": nested(10, "{% if " + "prompt in " * 900 + "prompt %}x{% endif %}"),
    "loops that print much": nested(8, "x" * 2000),
    "a long number": "{{ " + "9" * 30_000 + " }}",
    "a long template": "x" * 40_000,
    "a template of many parts": "{{ prompt }}" * 2500,
    "many brackets": "{{ " + "(" * 10_000,
    "many negations": "{{ " + "not " * 7_000 + "prompt }}",
    "many fields": "{{ rubric" + ".id" * 5_000 + " }}",
    "many blocks": "{% if prompt %}" * 1_000 + "{% endif %}" * 1_000,
    "a keyword argument": "{{ fence(name='A', text=prompt) }}",
    "unpacked arguments": "{{ fence(*rubric.judging.examples) }}",
    "a part in a fence": "{{ fence('A', rubric) }}",
    "no template": "{{ fence('A', prompt }}",
}


@pytest.mark.parametrize("template", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_template_is_refused(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAB_CANARY", CANARY)
    monkeypatch.chdir(tmp_path)
    before = time.thread_time()
    with pytest.raises(ConfigError, match=r"prompts\.yaml: judge\.user: .+; change the template") as refused:
        changed_prompts(tmp_path, user=template)
    assert time.thread_time() - before < 1
    assert CANARY not in str(refused.value) and len(str(refused.value)) < 600
    assert not (tmp_path / "canary").exists()


def test_what_a_rubric_says_is_text_and_never_a_template(rubrics: dict[str, Rubric]) -> None:
    said = "{{ 7 * 7 }}{% for x in y %}{# gone #}"
    rubric = next(iter(rubrics.values())).model_copy(update={"definition": said})
    assert said in load_prompts().judge.fill_system({"rubric": rubric})


ALLOWED = """{% for example in rubric.judging.examples if example.context is not none %}
{{ loop.index }}/{{ loop.length }} {{ "last" if loop.last else "more" }} {{ verdict_json(example) }}
{% else %}none{% endfor %}
{% if rubric.context is defined and not context == "" %}{{ rubric.context.label | upper | trim }}{% endif %}
{{ response | length }} {{ fence("ASSISTANT", response) }}"""


def test_what_is_documented_can_be_used(tmp_path: Path) -> None:
    judge = changed_prompts(tmp_path, user=ALLOWED).judge
    values: dict[str, Any] = {"prompt": "p", "response": "an answer"}
    text = judge.fill_user({"rubric": RUBRICS["within"], "context": "c", **values})
    assert '1/2 more {"assessment": "Short.", "issues": ["A"]}' in text and "\nFACT9 <<<ASS" in text
    assert "none" in judge.fill_user({"rubric": RUBRICS["without"], "context": "", **values})


def test_a_long_answer_is_no_fault_of_the_template() -> None:
    values = {"rubric": RUBRICS["without"], "prompt": "p", "context": "", "response": "word " * 400_000}
    assert len(load_prompts().judge.fill_user(values)) > 2_000_000


def test_a_template_that_fails_on_a_row_is_named_with_its_file(tmp_path: Path) -> None:
    template = "{% if prompt == 'odd' %}{{ rubric.context.label }}{% endif %}"
    judge = changed_prompts(tmp_path, user=template).judge
    values = {"rubric": RUBRICS["without"], "context": "", "response": "r"}
    assert judge.fill_user({**values, "prompt": "even"}) == ""
    with pytest.raises(ConfigError, match=r"prompts\.yaml: judge\.user: .*`label`"):
        judge.fill_user({**values, "prompt": "odd"})


class Slow(RubricPart):
    """A part whose field takes long to read, this many times."""

    times: list[int]
    text: str = "read"

    def __getattribute__(self, name: str) -> Any:
        if name == "text" and self.times:
            self.times.pop()
            until = time.thread_time() + 2 * MAX_CPU_SECONDS
            while time.thread_time() < until:
                pass
        return super().__getattribute__(name)


def test_a_rendering_that_took_long_once_is_no_fault_of_the_template() -> None:
    """Where millions of rows are in memory, a garbage collection of any generation may take as long."""
    template = safe_template("{{ part.text }}", frozenset({"part"}), 1)
    assert template.render({"part": Slow(times=[1])}) == "read"
    with pytest.raises(BadTemplate, match="takes longer"):
        template.render({"part": Slow(times=[1, 2])})
