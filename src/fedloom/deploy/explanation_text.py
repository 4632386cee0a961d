"""The text of ``fedloom deploy explain``: what leaves a site, what reaches it, and what its policy allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedloom.config.resolve import method_from_config, read_run_file, resolve
from fedloom.config.schema import RunConfig
from fedloom.config.trusted_code import NO_CODE, TrustedCode
from fedloom.core.task import Task
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.explain import explain
from fedloom.deploy.explanation import SCORING, SELECTION, WORK, Exchange, Explanation, SentTensor
from fedloom.deploy.participant_folder import APPROVER_FILE, SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import CONFIG, Blueprint
from fedloom.deploy.protocol.user_files import with_absolute_files
from fedloom.deploy.protocol.wire import RequestKind
from fedloom.deploy.settings import ServerSettings, load_server, load_site
from fedloom.deploy.site.plan_needs import PlanNeeds
from fedloom.deploy.site.policy import Policy
from fedloom.registry.code_consent import trust_only
from fedloom.runs.prepare import Prepared, prepare

TITLES = {SELECTION: "The selection asks", WORK: "Sites work"}
REQUESTS: dict[RequestKind, str] = {
    "update": "to train, and send what the method sends",
    "ask": "to measure the loss of its model, for a selection",
    "score": "to score its model on its data",
    "global": "to score the shared model on its data, as the evaluator",
    "model": "to send the model that it predicts with",
    "judge": "to score the models of all sites on its data",
    "sum": "to agree with other sites on how updates are hidden in a sum",
    "finish": "to save the model that it predicts with, here",
}
"""What a server can ask of a site."""
FEW = ClientSizes(2, 2, 2, 6)
"""The sizes of a site's data where they are not read."""


def explain_path(path: Path, trusted: Sequence[str] = ()) -> str:
    """The explanation of a run file, or of a site's or the server's folder, as a text.

    Args:
        trusted: Files of own code that may run, if it names some.
    """
    code = TrustedCode(files=tuple(trusted))
    with trust_only(code.places, str(path)):
        if (path / SITE_FILE).is_file():
            return explain_site(path, code)
        file = path / CONFIG if path.is_dir() else path
        values = read_run_file(file)
        if not (file.parent / SERVER_FILE).is_file():
            return explanation_text(resolve(values, str(file)), ServerSettings(sites=[]))  # as init writes them
        values = code.put_into(with_absolute_files(values, file.parent))
        return explanation_text(resolve(values, str(file)), load_server(file.parent))


def explanation_text(config: RunConfig, settings: ServerSettings | None = None) -> str:
    """The explanation of a run's config as a text."""
    return "\n".join(explanation_lines(explain(config, settings))) + "\n"


def explain_site(folder: Path, trusted: TrustedCode = NO_CODE) -> str:
    """The explanation of the run in a site's folder, and of the site's policy; no data are read.

    Args:
        folder: The site's folder.
        trusted: Files of the user's own that take the places of those in the folder.
    """
    site, blueprint = load_site(folder), Blueprint.load(folder, trusted)
    run = explain(plan_without_data(blueprint))
    runtime = blueprint.runtime(_task_without_data(blueprint))
    policy, needs = Policy.of(site, blueprint, runtime), PlanNeeds.of(blueprint, runtime.algorithm, site.client)
    lines = [*explanation_lines(run), *policy_lines(policy, needs, run)]
    if (folder / APPROVER_FILE).is_file():
        lines.append("  A new run begins here only with the signature of the deployment's approver (approver.pem).")
    return "\n".join(lines) + "\n"


def plan_without_data(blueprint: Blueprint) -> Prepared:
    """The run of a blueprint, as it is checked and put together where no data are."""
    task, config = _task_without_data(blueprint), blueprint.config
    return prepare(task, method_from_config(config), config, deployed=True, made_of=blueprint.digest)


def _task_without_data(blueprint: Blueprint) -> Task:
    return blueprint.server_task(dict.fromkeys(range(len(blueprint.sites)), FEW))


def policy_lines(policy: Policy, needs: PlanNeeds, run: Explanation) -> list[str]:
    """What a site's policy allows and refuses of a run, as the functions say that enforce it.

    Args:
        needs: What the run needs of the site; it refuses the rest.
        run: What is sent in the run.
    """
    lines = ["", f"This site's policy, for the run {policy.digest} ({policy.run})"]
    forbidden = policy.forbids_run()
    if forbidden:
        return [*lines, f"  refuses the whole run: {forbidden}."]
    again, turns = policy.repeats, policy.turns
    lines.append(f"  takes part in {policy.rounds} rounds, counted here, and answers {again} repetitions of rounds and")
    lines.append(f"    {turns} request{'' if turns == 1 else 's'} to train within a round; then it refuses.")
    for kind, words in REQUESTS.items():
        if kind == "sum" and not policy.sums:
            continue
        reason = policy.forbids(kind) or needs.forbids_kind(kind)
        lines.append(f"  {'refuses' if reason else 'allows '} {words}{f': {reason}' if reason else ''}")
    sent = {tensor.name: tensor for one in run.exchanges if one.what == WORK for tensor in one.up if tensor.counted}
    for name, tensor in sent.items():
        reason = policy.forbids_tensor(name)
        what = f"{name} ({_shape(tensor)} numbers at most)"
        lines.append(f"  {'keeps  ' if reason else 'lets go'} {what}{f': {reason}' if reason else ''}")
    if policy.withholds_scores:
        lines.append("  sends NaN instead of the scores that go with an update")
    return [*lines, "  What it refuses is written to policy.jsonl, and the server gets the reason."]


def explanation_lines(run: Explanation) -> list[str]:
    """The whole explanation."""
    rounds = "1 round" if run.rounds == 1 else f"{run.rounds:,} rounds"
    lines = [f"What leaves a site and what reaches it: {run.method} on {run.task}, {run.clients} sites, {rounds}."]
    lines += _greeting(run)
    if run.of(0, WORK):
        lines += ["", "Once, before the first round", *_exchanges(run, 0)]
    if _outline(run, 1) == _outline(run, run.later):
        lines += ["", "Every round", *_exchanges(run, 1)]
    else:  # the dry run does in its first round also what a method does once, between two phases
        lines += ["", "The first round, and what is done only once", *_exchanges(run, 1)]
        lines += ["", "Every later round", *_exchanges(run, 2)]
    return [
        *lines,
        *_sums(run),
        *_chains(run),
        *_scoring(run),
        *_end(run),
        *_whole_run(run),
        *_limits(run),
        *_stays(run),
    ]


def _greeting(run: Explanation) -> list[str]:
    return [
        "",
        "When a site connects",
        "  leaves the site: its name and number, how many samples it has for training, validation and testing",
        "    and in all, the versions of fedloom and torch, and a checksum of the run's files",
        f"    (about {run.greeting:,} bytes). Every message and answer has a header of about {run.header:,} bytes.",
    ]


def _outline(run: Explanation, number: int) -> list[tuple[str, tuple[SentTensor, ...], tuple[SentTensor, ...], int]]:
    return [(e.what, e.down, e.up, count) for e, count in _merge_alike(run.of(number, SELECTION, WORK))]


def _merge_alike(some: Sequence[Exchange]) -> list[tuple[Exchange, int]]:
    """Exchanges that look alike as one, with the number of sites in all of them together."""
    found: dict[tuple[str, tuple[SentTensor, ...], tuple[SentTensor, ...]], list[Exchange]] = {}
    for one in some:
        found.setdefault((one.what, one.down, one.up), []).append(one)
    return [(alike[0], sum(len(one.clients) for one in alike)) for alike in found.values()]


def _exchanges(run: Explanation, number: int) -> list[str]:
    lines: list[str] = []
    for one, count in _merge_alike(run.of(number, SELECTION, WORK)):
        lines.append(f"  {TITLES[one.what]}: {_sites(count, run.clients)}")
        lines += _table(one)
    reaches, leaves = run.per_site(number, SELECTION, WORK)
    lines.append(f"  In all, at most {reaches:,} bytes reach a site and {leaves:,} leave it in a round.")
    if number < len(run.records):
        cost = run.records[number]
        down, up, between = (cost[f"bytes_{way}"] for way in ("down", "up", "between"))
        lines.append(f"  The simulator counts {down:,} bytes down and {up:,} up for all sites.")
        if between and run.hides_models:
            lines += [
                f"  {between:,} more bytes go from site to site, through the server, which cannot read them: each",
                "    site encrypts its model for the next one in the plan, whose key the authority has certified.",
            ]
        elif between:
            lines.append(
                f"  {between:,} more bytes go from site to site, through the server, which can read them: it sees"
            )
            lines.append("    the model that every site hands on, and not only those at the end.")
        elif up < run.reply_bytes(number) and not run.of(number, SELECTION):
            lines.append("  Classes that a site does not have are sent as zeros and not counted.")
    return lines


def _sums(run: Explanation) -> list[str]:
    """What a sum hides, and what it does not."""
    step = run.sum_step
    if step is None:
        return []
    least = max(step.least, getattr(step, "least_clients", 0))
    hidden = [
        "",
        "What the sum hides",
        f"  The server learns the sum of the changes of at least {least} sites, and no single one. A site opens a",
        "    round once, and one model with the same sites only, whatever the server calls it.",
    ]
    if step.covers_replies:
        return [
            *hidden,
            "  The sum has the sites' own noise, which also protects them from a server that lies about the model.",
        ]
    return [
        *hidden,
        "  A server that lies about the model can still single a site out: it sends almost the same model to other",
        "    sites in the next round, or a model made for that. Against this only noise helps (privatesum).",
        f"  No site takes part in a sum of fewer than {least} sites (least_clients). More of them hide each one better",
        "    from helpers of the server among them, and do not prevent such a lie.",
    ]


def _chains(run: Explanation) -> list[str]:
    """Who reads what in encrypted chains."""
    if not run.hides_models:
        return []
    return [
        "",
        "What encrypted chains hide",
        "  The server reads the model at the end of each chain, and knows the one that it gave to the first site. It",
        "    cannot read what sites in between trained. It still learns the numbers above that go with an update.",
        "  The next site in a chain reads the model of the one before it, and could tell the server.",
        "  A site that does not answer costs its chain the round: nobody shows a model in its place.",
    ]


def _sites(count: int, clients: int) -> str:
    if count == clients:
        return "all sites" if clients > 1 else "the site"
    return f"{count} of {clients} sites" if count < clients else f"{count} times, at {clients} sites"


def _table(one: Exchange) -> list[str]:
    rows = [("gets", tensor) for tensor in one.down] + [("sends", tensor) for tensor in one.up]
    lines = [
        f"    {way:<5} {tensor.name:<14} {_shape(tensor):>10} {tensor.dtype:<7} {tensor.bytes:>10,} B  {tensor.meaning}"
        for way, tensor in rows
    ]
    return lines or ["    nothing"]


def _shape(tensor: SentTensor) -> str:
    return " x ".join(f"{size:,}" for size in tensor.shape) or "1"


def _scoring(run: Explanation) -> list[str]:
    some = run.of(1, SCORING)
    if not some:
        return ["", "Models are never evaluated."]
    one, count = _merge_alike(some)[0]
    times = "once" if run.scorings == 1 else f"{run.scorings:,} times"
    lines = ["", f"Evaluation, {times} in the run: {_sites(count, run.clients)}", *_table(one)]
    if run.evaluator is not None:
        lines.append(f"  Then {run.evaluator} gets the shared model and sends its loss and score on its own data.")
    return [*lines, "  The simulator does not count these bytes."]


def _end(run: Explanation) -> list[str]:
    size = sum(tensor.bytes for tensor in run.final)
    names = ", ".join(tensor.name for tensor in run.final) or "nothing"
    lines = ["", "At the end", f"  reaches a site: {names} ({size:,} bytes), to make the model that it predicts with"]
    if not run.cross_site:
        return [*lines, "    (that model stays at the site)."]
    return [
        *lines,
        f"  leaves a site: that model, whole ({run.model:,} bytes), since cross_site is on; then the models of all",
        f"    {run.clients} sites reach it, and their scores on its test part leave it.",
    ]


def _whole_run(run: Explanation) -> list[str]:
    down, up = run.whole_run
    return [
        "",
        f"The whole run, for a site that is in every round: {down:,} bytes reach it and {up:,} leave it",
        "  (plus headers; later rounds are assumed to be like the last one above).",
    ]


def _limits(run: Explanation) -> list[str]:
    if not run.limits:
        return []
    return ["", "What the server limits (deploy.toml)", *(f"  {sentence}" for sentence in run.limits)]


def _stays(run: Explanation) -> list[str]:
    lines = ["", "What does not leave a site", "  its samples and their labels, and the files that they are in"]
    return lines + [f"  {name}: {words}" for name, words in run.kept.items()]
