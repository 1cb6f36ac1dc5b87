"""The public interface to a run's results: Arrow tables, the settings sent, transcripts.

    import hab_ray

    run = hab_ray.open_run("runs/demo")
    run.scores(judge="panel").to_pandas()
    run.verdicts(dimension="encourage_learning")["score"]
    run.analysis("bounds")
    for transcript in run.transcripts(dimension="encourage_learning"):
        print(transcript.test.prompt, [answer.response for answer in transcript.answers])

Files are read on demand and not cached, except by a run made `steady`. The report and every analysis read through this
package.
"""

from hab_ray.results.run import Run, analyses_of, asked_judges, open_run, progress, rejudged
from hab_ray.results.settings import Sent, Settings
from hab_ray.results.transcripts import Answer, Transcript
from hab_ray.results.views import rows_in

__all__ = [
    "Answer",
    "Run",
    "Sent",
    "Settings",
    "Transcript",
    "analyses_of",
    "asked_judges",
    "open_run",
    "progress",
    "rejudged",
    "rows_in",
]
