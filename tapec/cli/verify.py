"""``tapec verify``: hold a program, and every pass over it, to what they promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from tapec import config
from tapec.cli.programs import hold_to_memory
from tapec.cli.target import Target, target_argument
from tapec.compiler import lowered
from tapec.errors import TapecError
from tapec.inspection.results import distance, native_results
from tapec.ir.compare import difference
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.verifier import verify as verify_program
from tapec.passes.observers import Check
from tapec.runtime import compile_module


@click.command()
@target_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(context: click.Context, target: Target, as_json: bool) -> None:
    """Check the program of the compiled FUNCTION in FILE, and what becomes of it.

    That its text can be read back; that it is valid and computes the same after each pass, as NumPy evaluates it on
    the arrays of the call; that native code, compiled anew, gives the same results. Ends with 1 if one of these does
    not hold.
    """
    hold_to_memory(target.module)
    module, arrays = target.module, target.arrays()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("text can be read back", lambda: _read_back(module)),
        (
            "each pass leaves a valid program that computes the same",
            lambda: _passes(module, arrays),
        ),
        ("native code computes what NumPy evaluates", lambda: _native(module, arrays)),
    ]
    answers = []
    for what, check in checks:
        try:
            answers.append((what, True, check()))
        except TapecError as error:
            answers.append((what, False, str(error)))
    if as_json:
        rows = [{"check": w, "holds": holds, "detail": d} for w, holds, d in answers]
        click.echo(json.dumps(rows, indent=1))
    else:
        for what, holds, detail in answers:
            click.echo(f"{'ok  ' if holds else 'FAIL'}  {what}: {detail}")
    context.exit(0 if all(holds for _, holds, _ in answers) else 1)


def _read_back(module: Module) -> str:
    verify_program(module)
    text = print_module(module, full_constants=True)
    differs = difference(module, parse_module(text))
    if differs is not None:
        raise TapecError(f"the text is another program: {differs}")
    return f"{len(text.splitlines())} lines"


def _passes(module: Module, arrays: list[Any]) -> str:
    check = Check(2, inputs=lambda _: [np.array(a) for a in arrays])
    lowered(module, observers=[check])
    return "all passes of the default pipeline"


def _native(module: Module, arrays: list[Any]) -> str:
    meant = lowered(module, pipeline="evaluated")
    expected = evaluate_module(meant, [np.array(a) for a in arrays])
    # Compiled anew: what is kept on disk may have been compiled by passes that were wrong then.
    loops = lowered(module)
    program = compile_module(loops, threads=config.threads(), apart=True)
    got = native_results(program, arrays)
    pairs = enumerate(zip(expected, got, strict=True))
    worst = max((distance(i, np.asarray(a), np.asarray(b)) for i, (a, b) in pairs), default=0.0)
    count = len(expected) - bool(program.checks)  # the last one says which check failed
    return f"{count} result{'s' * (count != 1)}, largest relative difference {worst:.1e}"
