"""The live block: four lines that say where a cluster is, what it does, and why."""

from __future__ import annotations

from rich.text import Text

from dask_fleet.view.records import Place, Status, Tasks
from dask_fleet.view.text import clean, clip, duration

#: Lines of the block; always the same, so that nothing on the screen jumps.
HEIGHT = 4

_HEALTH_STYLES = {"ok": "green", "degraded": "yellow", "failed": "bold red"}


def block(
    status: Status,
    place: Place,
    *,
    seconds: float,
    width: int,
    hint: str = "",
    ascii_only: bool = False,
) -> list[Text]:
    """Draw the block.

    Parameters
    ----------
    status
        The cluster now.
    place
        Where it can be reached.
    seconds
        How long it has been up.
    width
        Cells that a line may take.
    hint
        What the user can do now; shown in place of the sentence.
    ascii_only
        Whether the terminal takes nothing beyond ASCII.

    Returns
    -------
    list of Text
        ``HEIGHT`` lines, none wider than ``width``.
    """
    mark, rule = ("...", "-") if ascii_only else ("…", "─")
    head = _head(status, place, duration(seconds), width, rule)
    body = (_workers(status), _tasks(status.tasks), _why(status, hint))
    return [head, *(clip(line, width, mark) for line in body)]


def _head(status: Status, place: Place, clock: str, width: int, rule: str) -> Text:
    """Draw a rule with the name, the mode, the link, the state of health, the time."""
    health = "" if status.health == "ok" else status.health
    parts = ["dask fleet", status.scaling, health, place.dashboard or place.scheduler]
    style = _HEALTH_STYLES.get(status.health, "")
    # From the right, whole parts give way: a cut link is of no use to anybody.
    shown = [part for part in parts if part]
    while len(shown) > 1 and len(_joined(shown, clock, rule)) > width:
        shown.pop()
    head = Text(f"{rule * 2} ", style="dim")
    head.append(shown[0], style="bold")
    for part in shown[1:]:
        head.append("  ")
        head.append(part, style=f"not dim {style}" if part == health else "not dim")
    fill = max(1, width - head.cell_len - len(clock) - 5)
    head.append(f" {rule * fill} {clock} {rule * 2}")
    return clip(head, width, rule)


def _joined(parts: list[str], clock: str, rule: str) -> str:
    return f"{rule * 2} {'  '.join(parts)} {rule} {clock} {rule * 2}"


def _workers(status: Status) -> Text:
    settled = status.observed == status.target == status.plan
    line = _label("workers")
    line.append(f"target {status.target}", style="bold")
    line.append(f"  plan {status.plan}  requested {status.requested}  ")
    line.append(f"observed {status.observed}", style="green" if settled else "yellow")
    return line


def _tasks(tasks: Tasks | None) -> Text:
    line = _label("tasks")
    if tasks is None:
        return line.append("not known")
    line.append(f"waiting {tasks.waiting}  running {tasks.running}  done {tasks.done}")
    if tasks.failed:
        line.append("  ").append(f"failed {tasks.failed}", style="red")
    return line


def _why(status: Status, hint: str) -> Text:
    line = _label("why")
    if hint:
        return line.append(clean(hint), style="yellow")
    style = "" if status.health == "ok" else _HEALTH_STYLES.get(status.health, "")
    return line.append(clean(status.sentence), style=style)


def _label(name: str) -> Text:
    return Text.assemble((f"{name:8} ", "cyan"))
