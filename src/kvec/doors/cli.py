"""The command line: one word per wish. Heavy rooms are entered inside the commands, so that --help answers at once."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from kvec import __version__
from kvec.doors.dialing import At, load_at, target_of
from kvec.doors.flags import SchemaFlags, with_schema_flags
from kvec.doors.flink_command import flink
from kvec.doors.flows_command import flows
from kvec.doors.guarantee_command import guarantee
from kvec.doors.label_command import label
from kvec.doors.messages import Stopped, flush, let_go, one_line, say, warn_of, wording
from kvec.doors.reproduce_command import reproduce
from kvec.doors.send_command import send
from kvec.doors.serve_command import serve, serve_demo, serve_export
from kvec.doors.stream_command import stream
from kvec.doors.train_command import Data, Device, train
from kvec.doors.tune_command import tune
from kvec.doors.watch_command import watch
from kvec.words.errors import KvecError, SettingError
from kvec.words.processes import is_one_of_many, rank_here

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's UsageError, wherever this Typer keeps it
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))  # there is no room

app = typer.Typer(
    name="kvec",
    help=(
        "Early classification of tangled key-value sequences: names each key of a mixed stream as soon as it can, "
        "and says how sure it is."
    ),
    epilog="Start with [bold]kvec demo[/bold], or with your own table: [bold]kvec inspect items.csv[/bold]",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[Path, Argument(metavar="MODEL", help="A folder that kvec train has written.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object, and nothing else on the standard output.")]
Retangle = Annotated[
    bool,
    Option(
        "--retangle/--as-it-is",
        help="Make tangles as in training where the schema says how; or take items as they come, as kvec stream and "
        "kvec watch do.",
    ),
]
Labels = Annotated[
    Path | None,
    Option(
        "--labels",
        metavar="FILE",
        help="A second table with the labels, joined per key; for captures also by-file or by-folder.",
    ),
]


def main() -> None:
    """Run the command line and leave with its exit code."""
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # docs/decisions/0004-threads-that-sleep.md
    code = run(sys.argv[1:])
    if code == 0 and is_one_of_many():  # a thread of Gloo may still want Python, and abort a process that is ending
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command: 0 when it went well, 2 when what was given cannot be used, 130 when it was stopped."""
    try:
        code = app(args=list(arguments), prog_name="kvec", standalone_mode=False)
        flush()
    except Stopped as stop:
        return say(str(stop), 130)
    except (KeyboardInterrupt, typer.Abort):
        return say("stopped", 130)
    except KvecError as error:
        return say(f"process {rank}: {error}" if (rank := rank_here()) else str(error), 2)
    except USAGE_ERROR as error:
        return say(f"{wording(error.format_message())} See {_command_of(error)} --help.", 2)
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_full := error.filename is None and error.errno in FULL:  # who writes files says their names
            let_go()
        place = error.filename or ("standard output" if is_full else "a file")
        return say(f"{place}: {one_line(error.strerror or error)}", 2)
    return say("stopped", 130) if code == 130 else int(code or 0)


@app.callback(invoke_without_command=True)
def front(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Print the version and leave.")] = False
) -> None:
    """Answer questions about kvec itself."""
    if version:
        print(f"kvec {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command(
    epilog="Example: [bold]kvec inspect flows.parquet --key key --tangle tangle --order order --values size,direction "
    "--session direction --label label[/bold]"
)
@with_schema_flags
def inspect(data: Data, flags: SchemaFlags, as_json: Json = False) -> None:
    """Show what a table holds, and what looks wrong in it: the paper's table I for any data set."""
    from kvec.doors.inspecting import inspect_table, inspection_text
    from kvec.doors.sources import read_by_flags

    table, origin = read_by_flags(data, flags)
    inspection = inspect_table(table)
    if as_json:
        _print_json({"source": table.source, **inspection.to_dict(), "schema": table.schema.to_dict()})
    else:
        print(inspection_text(inspection, table, origin))


app.command(
    epilog="Example: [bold]kvec train flows.parquet --key key --tangle tangle --order order --values size,direction "
    "--session direction --label label --preset small --seed 0 -o model[/bold]"
)(train)


@app.command(
    epilog="Examples: [bold]kvec evaluate model flows.parquet --split test[/bold], "
    "[bold]kvec evaluate model heldout.parquet --json[/bold]"
)
def evaluate(
    model: Model,
    data: Data,
    part: Annotated[
        str | None, Option("--split", metavar="test", help="The test (or validation, train) part of the training data.")
    ] = None,
    as_json: Json = False,
    report: Annotated[Path | None, Option(metavar="FILE", help="Write a report with curves as one HTML file.")] = None,
    labels: Labels = None,
    retangle: Retangle = True,
    at: At = None,
    device: Device = "auto",
) -> None:
    """Measure accuracy, earliness and their harmonic mean on labelled data, beside the best fixed-n rule."""
    from kvec.doors.writing import require_place

    require_place(report, (".html", ".htm"), (data, labels))
    from kvec.doors.doubts import flattering, unknown_values, unlike_streams
    from kvec.doors.measuring import dial_of, evaluate_model, report_evaluation, require_truth, to_json, told_of
    from kvec.doors.newcomers import new_alone, new_alone_text, only_new, require_known_class
    from kvec.doors.show import scoring
    from kvec.doors.sources import read_by_schema, take_part

    target = target_of(at)
    loaded = load_at(model, device, target)
    table = read_by_schema(data, loaded.model_.schema, labels)
    require_truth(table)
    warn_of(table)
    training = None
    if part is not None:
        table, training = take_part(table, loaded.model_.split, part, model)
    tangles = loaded.tangles(table, retangle)
    new = only_new(loaded, tangles)
    if not loaded.model_.unknown.is_asked:
        require_known_class(loaded, tangles, data, "there is nothing to compare with")
    with scoring() as on_items:
        scores = loaded.scores(tangles, on_items)
    if new:
        measured, told = new_alone(loaded, tangles, scores, new)
        for line in told:
            say(line)
        if report is not None:
            say(f"{report} is not written: there is no accuracy to report")
        if as_json:
            _print_json(measured)
        else:
            print(new_alone_text(measured))
        return
    seen = None if training is None else loaded.tangles(training, retangle)
    evaluations = evaluate_model(loaded, tangles, scores, seen, target)
    doubts = flattering(table.frame, loaded.model_, data, part)
    told = told_of(loaded, evaluations[0].promise_here)
    for doubt in (*told, *doubts, *unlike_streams(loaded.model_, retangle), *unknown_values(tangles, loaded.model_)):
        say(doubt)
    if report is not None:
        facts = {"data": str(data), "part": part or "all", "sequences": tangles.n_sequences, "items": tangles.n_items}
        dial = dial_of(loaded, tangles, scores)
        report_evaluation(report, loaded, evaluations, f"{model} on {data}", _command(), facts, dial=dial)
        say(f"the report is in {report}")
    if as_json:
        promise = loaded.deployed().promised
        _print_json(to_json(evaluations) | ({} if promise is None else {"promise": promise.to_dict()}))
        return
    for evaluation in evaluations:
        if len(evaluations) > 1:
            print(f"label {evaluation.label}\n")
        print(evaluation.to_text() + ("\n" if evaluation is not evaluations[-1] else ""))


@app.command(
    epilog="Examples: [bold]kvec decide model items.csv -o decisions.ndjson[/bold], "
    "[bold]kvec decide model items.csv --format ndjson | head[/bold]"
)
def decide(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="A .ndjson, .csv or .parquet file.")
    ] = None,
    form: Annotated[
        str | None,
        Option("--format", metavar="table|ndjson", help="What is printed: a table in a terminal, else NDJSON."),
    ] = None,
    retangle: Retangle = True,
    at: At = None,
    device: Device = "auto",
) -> None:
    """Decide every sequence: its label, how sure that is, after how many items, and why then."""
    from kvec.doors.writing import ENDINGS, decision_rows, print_decisions, require_place, write_decisions

    require_place(output, tuple(ENDINGS), (data,))
    if form not in (None, "table", "ndjson"):
        raise SettingError(f"--format is {form!r}; it can be table or ndjson")
    from kvec.doors.doubts import unknown_values
    from kvec.doors.promises import promise_lines, unknown_lines
    from kvec.doors.show import scoring
    from kvec.doors.sources import read_by_schema
    from kvec.read.rows import labels_source

    loaded = load_at(model, device, target_of(at))
    require_place(output, inputs=(labels_source(data, loaded.model_.schema, labels_optional=True),))
    table = read_by_schema(data, loaded.model_.schema)
    warn_of(table, but_not=("missing labels",))
    tangles = loaded.tangles(table, retangle)
    told = (*promise_lines(loaded.deployed()), *unknown_lines(loaded.model_.unknown))
    for doubt in (*told, *unknown_values(tangles, loaded.model_)):
        say(doubt)
    with scoring() as on_items:
        rows = decision_rows(loaded.decision_frame(tangles, on_items))
    if output is None:
        print_decisions(rows, form or ("table" if sys.stdout.isatty() else "ndjson"))
        return
    write_decisions(rows, output)
    halted = int((rows["reason"] == "halted").sum())
    how = {0: "all at the end", rows.height: "all by halting"}
    n_unknown = int((~rows["is_known"]).sum())
    say(
        f"{rows.height:,} decisions are in {output}; "
        + how.get(halted, f"{halted:,} by halting, {rows.height - halted:,} at the end")
        + (f", {n_unknown:,} unknown" if n_unknown else "")
    )


@app.command(epilog="Example: [bold]kvec explain model items.csv --key 10.0.0.7:51234 --picture why.svg[/bold]")
def explain(
    model: Model,
    data: Data,
    key: Annotated[str, Option("--key", metavar="KEY", help="The key whose sequence is explained.")],
    tangle: Annotated[str | None, Option(metavar="TANGLE", help="Its tangle, where the key is in several.")] = None,
    sequence: Annotated[int, Option(help="Which of the key's sequences, where it has returned; 0 is the first.")] = 0,
    picture: Annotated[Path | None, Option(metavar="FILE", help="Draw it, as .svg or .png.")] = None,
    as_json: Json = False,
    at: At = None,
    device: Device = "auto",
) -> None:
    """Show what the model saw of one sequence until it halted, and where it looked."""
    from kvec.doors.writing import require_place

    require_place(picture, (".svg", ".png"), (data,))
    from kvec.doors.sources import read_by_schema
    from kvec.report.text import explanation_text

    loaded = load_at(model, device, target_of(at))
    explanation = loaded.explain(read_by_schema(data, loaded.model_.schema), key, tangle, sequence)
    if picture is not None:
        from kvec.report.canvas import save
        from kvec.report.portrait import draw_explanation

        save(draw_explanation(explanation), picture)
        say(f"the picture is in {picture}")
    if as_json:
        _print_json({"id": explanation.decision.id, **asdict(explanation)})
    else:
        print(explanation_text(explanation))


@app.command(epilog="Example: [bold]kvec datasets ~/data[/bold]")
def datasets(
    folder: Annotated[Path | None, Argument(metavar="FOLDER", help="Look for the data sets in here.")] = None,
    as_json: Json = False,
) -> None:
    """Tell where the public data sets can be had, and which of them a folder holds."""
    from kvec.doors.inspecting import datasets_text
    from kvec.read.catalogue import datasets as known

    found = known(folder)
    if as_json:
        _print_json([asdict(dataset) for dataset in found])
    else:
        print(datasets_text(found))


@app.command(epilog="Examples: [bold]kvec demo --out demo --seconds 8[/bold], [bold]kvec demo --captures made[/bold]")
def demo(
    out: Annotated[Path, Option(metavar="FOLDER", help="Where data, model and report are left.")] = Path("demo"),
    seconds: Annotated[float, Option(help="How long each replayed tangle takes in a terminal.")] = 8.0,
    tangles: Annotated[int, Option(help="How many unseen tangles are replayed.")] = 3,
    minutes: Annotated[float, Option(help="Train no longer than this.")] = 1.0,
    web: Annotated[bool, Option("--web", help="Show unseen traffic on a page at once.")] = False,
    port: Annotated[int, Option(help="With --web: where the page is served; 0: any that is free.")] = 8765,
    opens: Annotated[bool, Option("--open/--no-open", help="With --web: open the page in a browser.")] = True,
    captures: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Only make labelled captures here, for kvec train and kvec watch."),
    ] = None,
) -> None:
    """Make tangled traffic, train on it, and watch decisions appear while unseen items flow by."""
    if captures is not None:
        if web:
            raise SettingError("--captures and --web were both given; each is a demo of its own")
        from kvec.doors.demo_captures import make_captures

        print(make_captures(captures))
        return
    if web:
        raise typer.Exit(serve_demo(out, port, opens))
    from kvec.doors.demo import run_demo

    run_demo(out, seconds, tangles, minutes)


app.command(
    epilog="Examples: [bold]kvec stream model items.ndjson -o decisions.ndjson[/bold], "
    "[bold]tail -F items.ndjson | kvec stream model --state kept[/bold]"
)(stream)
app.command(epilog="Example: [bold]kvec send model items.ndjson --sink nats://localhost/items[/bold]")(send)
app.command(
    epilog="Example: [bold]kvec flink model --source items.parquet --sink decisions --cluster jobmanager:8081 -p 8 "
    "--checkpoints /mnt/checkpoints[/bold]"
)(flink)
app.command(
    epilog="Examples: [bold]kvec serve model --state kept[/bold], "
    "[bold]kvec serve fast=model-a sure=model-b --host 0.0.0.0 --token-file tokens[/bold]"
)(serve)
app.command("serve-export", epilog="Example: [bold]kvec serve-export kept -o labelled.parquet[/bold]")(serve_export)
app.command(
    epilog="Examples: [bold]kvec tune model newer.parquet -o tuned[/bold], "
    "[bold]kvec tune model newer.parquet --at cost_per_error=1,cost_per_item=0.01 -o tuned[/bold]"
)(tune)
app.command(
    epilog="Examples: [bold]kvec guarantee model unseen.parquet --max-early-error 0.02[/bold], "
    "[bold]kvec guarantee model flows.parquet --split test --max-error 0.1 --per-class[/bold]"
)(guarantee)
app.command(epilog="Example: [bold]kvec flows day1.pcap -o items.parquet[/bold]")(flows)
app.command(epilog="Example: [bold]kvec label captures --by sni -o labels.csv[/bold]")(label)
app.command(
    epilog="Examples: [bold]kvec watch model day2.pcap --speed 10[/bold], "
    "[bold]sudo kvec watch model -i eth0 --filter 'tcp port 443'[/bold]"
)(watch)
app.command(
    epilog="Examples: [bold]kvec reproduce all[/bold], "
    "[bold]kvec reproduce curves --profile small --data ~/data[/bold], "
    "[bold]kvec reproduce mine.toml --profile small --data traffic-fg=flows.parquet --out mine[/bold]"
)(reproduce)


def _print_json(plain: Any) -> None:
    print(json.dumps(plain, allow_nan=False))


def _command() -> str:
    return shlex.join(["kvec", *sys.argv[1:]])


def _command_of(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "kvec"
