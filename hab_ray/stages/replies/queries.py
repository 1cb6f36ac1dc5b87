"""Reads the queries that a reply lists: objects under `queries`, or numbered for imported wording."""

from hab_ray.calls import Reply, clean_text, has_visible_text
from hab_ray.rubric import Rubric
from hab_ray.stages.replies.published import numbered_queries
from hab_ray.stages.replies.reading import Unreadable, listed_objects, whole_text


def query_fields(rubric: Rubric) -> tuple[str, ...]:
    """Return the names of a query's texts.

    If the context is part of the prompt, the model writes the text before and after it separately, so that the prompt
    contains the context verbatim by construction.
    """
    if rubric.context is None:
        return ("prompt",)
    in_parts = rubric.context.within_prompt and rubric.literal_generation is None
    return ("before", "context", "after") if in_parts else ("prompt", "context")


def read_query(rubric: Rubric, reply: Reply, index: int, wanted: int) -> tuple[str, str]:
    """Return prompt and context ("" if the rubric has none) of the `index`-th query; other queries may be malformed.

    Raises:
        Unreadable: the reply lists no queries, fewer of the `wanted` ones, or this query lacks a text.
    """
    text, fields = whole_text(reply), query_fields(rubric)
    is_literal = rubric.literal_generation is not None
    members = numbered_queries(text, fields) if is_literal else listed_objects(text, "queries")
    if index >= len(members):
        raise Unreadable(f"the reply holds {len(members)} of {wanted} queries")
    member = members[index]
    parts = {name: member.get(name) for name in fields} if isinstance(member, dict) else {}
    texts = {name: clean_text(part).strip() for name, part in parts.items() if isinstance(part, str)}
    context = texts.get("context", "")
    prompt = texts["prompt"] if "prompt" in texts else " ".join(part for part in texts.values() if part)
    needed = [prompt, context] if rubric.context else [prompt]
    if len(texts) < len(fields) or not all(map(has_visible_text, needed)):
        raise Unreadable(f"the query needs texts {', '.join(fields)}")
    return prompt, context
