"""Work after arrival: everything derived from stored mail outside the arrival transaction (languages, texts of files).

A `Stage` does one bounded pass at a time and asks the database what is outstanding. `drain` runs stages to their end,
`StageRunner` keeps them running and is woken by arrivals, `stage_statuses` counts. The packages that own a stage give
it; only `app` puts the list together.
"""

from mailkeep.stages.drain import StageResult, drain, stage_statuses
from mailkeep.stages.model import PassOutcome, Stage, StageCounts, StageStatus
from mailkeep.stages.worker import StageRunner

__all__ = [
    "PassOutcome",
    "Stage",
    "StageCounts",
    "StageResult",
    "StageRunner",
    "StageStatus",
    "drain",
    "stage_statuses",
]
