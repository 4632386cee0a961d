"""The page of an audit: an assessment for a data-protection officer, a table for an engineer, and what was rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from fedloom.audits.of_run.conclude import ADDED
from fedloom.audits.of_run.page.samples import pairs
from fedloom.audits.of_run.page.words import (
    bytes_text,
    cost_text,
    learning_warning,
    number_text,
    score_text,
    state_text,
)
from fedloom.audits.of_run.play.defences import CONFIGURED
from fedloom.audits.of_run.result import LIMITS, Audit, Finding, ProtectedRun
from fedloom.core.errors import unwritable
from fedloom.files.atomic_write import write_private
from fedloom.reports.page import config_toml, document

SHOWN = 4
"""How many samples are shown of an attack with a defence."""
NOT_COMPARED = "not compared"
GROUPS = {"leak": "What leaks", "break": "What breaks"}


def write_audit_page(audit: Audit, path: Path) -> Path:
    """Write an audit as a page, and return its path. It has training samples: only its owner can read it.

    Args:
        audit: What was found.
        path: The HTML file to write.
    """
    style = resources.files("fedloom.audits.of_run.page").joinpath("page.css").read_text(encoding="utf-8")
    text = document(f"Audit of {audit.method} on {audit.task}", _body(audit), style=style)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, text.encode())
    except OSError as error:
        raise unwritable(path, error, "name another file") from None
    return path


def _body(audit: Audit) -> Iterator[str]:
    yield from _assessment(audit)
    yield from _table(audit)
    yield from _costs(audit)
    yield from _pictures(audit)
    yield from _gaps(audit)
    yield from _reading(audit)
    yield "<details><summary>The run, as it was configured</summary>"
    yield f"<pre>{escape(config_toml(audit.config))}</pre></details>"


def _assessment(audit: Audit) -> Iterator[str]:
    """The paragraphs for a data-protection officer."""
    yield '<div class="paper"><h2 id="assessment">For the data-protection officer</h2>'
    for paragraph in audit.assessment:
        points = "".join(f"<li>{_unbroken(sentence)}</li>" for sentence in paragraph.sentences[1:])
        first = f"<b>{escape(paragraph.about)}.</b> {_unbroken(paragraph.sentences[0])}"
        yield f"<p>{first}</p>{f'<ul>{points}</ul>' if points else ''}"
    yield f"<p><b>What this does not say.</b> {escape(LIMITS[0])}</p></div>"
    if any(one.samples for one in audit.findings):
        yield (
            '<p class="verdict warning">This page shows training samples and what was rebuilt of them: treat it as you '
            "treat these data.</p>"
        )


def _unbroken(sentence: str) -> str:
    """A sentence whose lines never begin with a percent sign."""
    return escape(sentence).replace(" %", "&nbsp;%")


def _table(audit: Audit) -> Iterator[str]:
    """What each attack got with each setting, the worst first."""
    settings = [one for one in audit.protections if one.score is not None]
    yield '<h2 id="attacks">For the engineer: attacks and defences</h2>'
    yield (
        '<p class="note">The worst in the run as configured comes first. A colour and a word say how bad a number is. '
        "What each attack is stands in the <i>Attacks</i> page of the documentation under its name.</p>"
    )
    yield '<table class="grades"><thead><tr><th>Attack</th>'
    yield "".join(f"<th>{_name(one)}</th>" for one in settings) + "</tr></thead><tbody>"
    for kind, heading in GROUPS.items():
        rows = list(dict.fromkeys(one.probe for one in audit.findings if one.kind == kind))
        rows = [row for row in rows if any(one.measured for one in audit.findings if one.probe == row)]
        if rows:
            yield f'<tr class="group"><td colspan="{len(settings) + 1}">{heading}</td></tr>'
        for row in rows:
            yield _row(audit, row, settings)
    yield "</tbody></table>"


def _name(one: ProtectedRun) -> str:
    """A setting as the head of a column: what it protects with, and how it is set."""
    if one.name == CONFIGURED:
        return escape(CONFIGURED)
    return f"{escape(' and '.join(one.words))}<small><code>{escape(one.name)}</code></small>"


def _row(audit: Audit, probe: str, settings: Sequence[ProtectedRun]) -> str:
    """A line of the table."""
    first = next(one for one in audit.findings if one.probe == probe)
    cells = [f"<td>{escape(probe)}<small>{escape(first.who)} {escape(first.what)}. {_says(first)}</small></td>"]
    for setting in settings:
        one = audit.find(probe, setting.name)
        if one is None or not one.measured:
            text = "" if one is None else f'<span class="grade">{escape(state_text(one))}</span>'
        else:
            extra = "".join(f"<small>{escape(word)}</small>" for word in (one.level, _besides(audit, one)) if word)
            text = f'<span class="grade {one.level.partition(" ")[0]}">{escape(number_text(one))}{extra}</span>'
        cells.append(f'<td data-of="{escape(setting.name, quote=True)}">{text}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _says(one: Finding) -> str:
    """What the number says, as a sentence."""
    if one.words == ADDED:
        return f"How much {escape(one.words)}: 100 % is twice the error."
    start = ("How much " if one.measure == "lost" else "How many ") if one.unit == "share" else "The number "
    return f"{start}{escape(one.words)}."


def _besides(audit: Audit, one: Finding) -> str:
    """The numbers that an engineer wants beside the first one."""
    if one.kind == "break":
        success = f"success {100 * one.numbers['success'].value:.0f} %, " if "gained" in one.numbers else ""
        return f"{success}score {score_text(audit, one.numbers['score'])}"
    if one.measure == "rebuilt":
        best = one.numbers.get("best_psnr")
        return f"best {best.value:.0f} dB" if best is not None else ""
    if "usual" in one.numbers:
        return f"as long a list of what is usual: {100 * one.numbers['usual'].value:.0f} %"
    if one.unit == "auc":
        each = ", ".join(
            f"{n.removeprefix('auc_')} {v.value:.2f}" for n, v in one.numbers.items() if n.startswith("auc_")
        )
        found = f"{100 * one.numbers['found_at_1_percent'].value:.0f} of 100 members are found"
        return "; ".join(filter(None, (each, f"{found} when 1 of 100 others is taken for one")))
    return f"{one.numbers['stated'].value:.2g} is stated of these trials" if one.unit == "epsilon" else ""


def _costs(audit: Audit) -> Iterator[str]:
    """What each defence costs without an attack, and which no other one beats."""
    before = audit.plain
    yield '<h2 id="costs">What each defence costs, and what it is worth</h2>'
    if learning_warning(audit):
        yield f'<p class="verdict warning">{escape(learning_warning(audit))}</p>'
    heads = ("Run", audit.score_name, "change", "sent", "time", "stated ε", "worst leak", "worst damage", "frontier")
    yield '<table class="frontier"><thead><tr>' + "".join(f"<th>{escape(head)}</th>" for head in heads)
    yield "</tr></thead><tbody>"
    for one in audit.protections:
        if one.score is None:
            continue
        change = (
            "" if before is None or before.score is None or one is before else cost_text(audit, before.score, one.score)
        )
        cells = [score_text(audit, one.score), change, bytes_text(one.megabytes), f"{one.seconds:.2g} s"]
        cells += ["" if one.epsilon is None else f"{one.epsilon:.3g}"]
        if one.compared:
            cells += [f"{one.worst_leak:.2f}", f"{one.worst_break:.2f}", "yes" if one.on_frontier else "no"]
        else:  # a zero would say that nothing leaks
            cells += [NOT_COMPARED] * 3
        line = "".join(
            f'<td data-of="{escape(head)}">{escape(cell)}</td>' for head, cell in zip(heads[1:], cells, strict=True)
        )
        yield f"<tr><td>{_name(one)}</td>{line}</tr>"
    yield "</tbody></table>"
    compared = max((one.compared for one in audit.protections), default=0)
    if not compared:
        yield (
            '<p class="note">There was no time for any attack with every setting, so that what they leave open is not '
            "compared: give more minutes. Time is of this machine.</p>"
        )
        return
    yield (
        f'<p class="note">Score, bytes and time are of the run without an attack, {audit.rounds_played} rounds. Worst '
        f"leak and worst damage are from 0 to 1, over the {compared} attacks that were played with every setting. On "
        "the frontier is what no other line beats: at least as good in score, bytes, leak and damage, and better in "
        "one. Time is of this machine and does not count there.</p>"
    )


def _pictures(audit: Audit) -> Iterator[str]:
    """Rebuilt samples beside the originals, the worst attack first."""
    probes = list(dict.fromkeys(one.probe for one in audit.findings if one.samples))
    if not probes:
        return
    yield '<h2 id="samples">What was rebuilt</h2>'
    yield (
        '<p class="note">The best of each, of the first seed, beside the training samples themselves: '
        "as the model gets them, so that columns of a table may be standardised.</p>"
    )
    for probe in probes:
        with_samples = [one for one in audit.findings if one.probe == probe and one.samples]
        yield f'<div class="strip"><h3>{escape(probe)}</h3>'
        for one in with_samples:
            yield f"<h4>{escape(one.setting)}: {escape(number_text(one))}, {escape(one.note)}</h4>"
            yield from pairs(one.samples[:SHOWN], *one.samples_range)
        yield "</div>"


def _gaps(audit: Audit) -> Iterator[str]:
    """What was not measured, and why, so that nobody takes it for not found."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in audit.findings:
        if not one.measured:
            reasons.setdefault((one.probe, one.reason), []).append(one.setting)
    alike: dict[tuple[str, str], list[str]] = {}
    for (probe, reason), some in reasons.items():
        alike.setdefault((", ".join(some), reason), []).append(probe)
    lines = [
        f"<li>{escape(', '.join(probes))} ({escape(some)}): {escape(reason)}</li>"
        for (some, reason), probes in alike.items()
    ]
    lines += [f"<li>{escape(one.name)}: {escape(one.refused)}</li>" for one in audit.protections if one.refused]
    if lines:
        yield f'<h2 id="not-played">What was not measured, and why</h2><ul>{"".join(lines)}</ul>'


def _reading(audit: Audit) -> Iterator[str]:
    """What the numbers mean, and where they end."""
    numbers = [one.seeds for one in audit.findings if one.measured] or [1]
    seeds = f"{min(numbers)} seed{'s' * (min(numbers) > 1)}"
    if min(numbers) < max(numbers):
        seeds = f"{min(numbers)} to {max(numbers)} seeds, the most important ones with the most"
    played = (
        ""
        if audit.rounds_played == audit.rounds
        else (
            f" There was time for the first {audit.rounds_played} of its {audit.rounds} rounds: later ones may leak "
            "more."
        )
    )
    yield '<h2 id="reading">How to read this</h2><ul>'
    yield (
        f"<li>Every attack was played on the run with {seeds}, within {audit.minutes:g} "
        f"minutes.{escape(played)} Noise is drawn from the seed here, so that an audit can be repeated.</li>"
    )
    yield (
        "<li>Under <i>stated ε</i> is what the noise of the rounds that were played promises. The trials of "
        "<i>canary</i> are fewer rounds at a larger delta, and have a stated epsilon of their own.</li>"
    )
    yield (
        "<li>An image is rebuilt recognisably from a PSNR of 20 dB on; a blank one has about 10. A row of a table is "
        "if its numbers are a tenth of their columns' spread off, or less: that is 20 dB too, and means have 0. "
        "Samples are compared with the original that they are most like, which an attacker does not know.</li>"
    )
    yield (
        "<li>Severe is a badness of 0.5 or more, serious 0.25, some 0.1. It is the root of the share of samples that "
        "were rebuilt; 2 AUC − 1; what is listed of a vocabulary beyond the usual; the share of the score that is "
        "lost; how much more often a trigger works than without a backdoor, or what is lost by that if it is more. An "
        "AUC that guessing may have, by its interval, is never more than little.</li>"
    )
    yield "".join(f"<li>{escape(limit)}</li>" for limit in LIMITS) + "</ul>"
