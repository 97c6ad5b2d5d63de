"""Scripts that end, fail, thread, fork, live in packages or catch all, as commands run them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tapec.cli import main
from tapec.recording import accusation_listeners, missing_listeners, program_listeners


def tapec(*argv: object) -> Result:
    hook = threading.excepthook
    result = CliRunner().invoke(main, [str(a) for a in argv], catch_exceptions=False)
    assert "cli/" not in result.stderr, result.stderr
    # Nothing of a command stays behind.
    for listeners in (missing_listeners, program_listeners, accusation_listeners):
        assert not listeners
    assert threading.excepthook is hook
    return result


FUNCTION = "import tapec\n@tapec.compile\ndef f(x): return x * 2.0\n"
CALL = "f(tapec.ones([5]))"
#: Ways in which a program comes to its call; all of them are seen.
CALLS = {
    "plain": CALL,
    "in a thread": f"import threading\nt = threading.Thread(target=lambda: {CALL})\nt.start()\nt.join()",
    "in a pool of threads": "from concurrent.futures import ThreadPoolExecutor as Pool\n"
    f"with Pool() as pool: pool.submit(lambda: {CALL}).result()",
    "async": f"import asyncio\nasync def go(): {CALL}\nasyncio.run(go())",
    "caught": f"try: {CALL}\nexcept BaseException: pass",
    "caught, and fails later": f"try: {CALL}\nexcept BaseException: pass\n1 / 0",
    "ends with 1": f"{CALL}\nraise SystemExit(1)",
    "after workers of its own": "import multiprocessing as m\ndef g(n): return float(f(tapec.ones([n]))[0])\n"
    f"with m.get_context('fork').Pool(1) as pool: assert pool.map(g, [1]) == [2.0]\n{CALL}",
}


@pytest.mark.parametrize("way", CALLS)
def test_a_call_is_caught_wherever_it_is_made(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file.py"
    path.write_text(f"{FUNCTION}if __name__ == '__main__':\n{_indented(CALLS[way])}")
    result = tapec("ir", f"{path}:f")
    assert result.exit_code == 0, result.stderr
    assert "func @f(%x: f32[5])" in result.stdout
    assert "Exception in thread" not in result.stderr


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_a_program_that_exits_has_functions(tmp_path: Path) -> None:
    """One that nobody calls has its own signature; others are named."""
    path = tmp_path / "file.py"
    path.write_text(
        "import sys, tapec\n@tapec.compile(input_signature=[tapec.TensorSpec([3], tapec.float32)])\n"
        "def f(x): return x\ndef main(): return int(sys.argv[1])\nsys.exit(main())\n"
    )
    for code in "03":
        assert "@f(%x: f32[3])" in tapec("ir", f"{path}:f", "--", code).stdout
        result = tapec("ir", f"{path}:g", "--", code)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "has no compiled function g: it has f" in result.stderr
    path.write_text(
        f"import sys\nif len(sys.argv) < 2: sys.exit('usage: file.py SIZE')\n{FUNCTION}"
    )
    assert "ended before it called f: usage: file.py SIZE; what" in tapec("ir", f"{path}:f").stderr


def test_what_a_file_has_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(
        "import tapec\nclass Model:\n    @tapec.compile\n    def step(self, x): return x\nmodel = Model()\n"
        "def make():\n    @tapec.compile\n    def inner(x): return x\n    return inner\n"
    )
    for where, says in {
        f"{path}": "file.py has Model.step, inner",
        f"{path}:": "file.py has Model.step, inner",
        f"{path}:Model": "it has model.step",
        f"{path}:step": "it has model.step",
        f"{tmp_path / 'flie.py'}:f": "there is " + str(path),
        f"{tmp_path}:f": "is a folder",
    }.items():
        result = tapec("ir", where)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
    result = tapec("ir", f"{path}:Model.step", "--arg=x=f32[2]")
    assert "name the method of an object, as trainer.step" in result.stderr
    assert "(%x: f32[2,3])" in tapec("ir", f"{path}:model.step", "--shapes=float32[2, 3]").stdout


def test_a_file_in_a_package(tmp_path: Path) -> None:
    """Its relative imports work, as by ``python -m``; so do modules beside it."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner.parent / "layers.py").write_text(FUNCTION)
    (inner / "beside.py").touch()
    script = inner / "train.py"
    script.write_text(
        "import beside\nfrom ..layers import f\nimport tapec\n@tapec.compile\ndef g(x): return f(x)\n"
        "if __name__ == '__main__':\n    g(tapec.ones([4]))\n    f(tapec.ones([5]))\n    print('end')\n"
    )
    assert "@g(%x: f32[4])" in tapec("ir", f"{script}:g").stdout
    assert "@g(%x: f32[7])" in tapec("ir", f"{script}:g", "--arg=x=f32[7]").stdout
    # The function of another file is named as it is here.
    assert "@f(%x: f32[5])" in tapec("ir", f"{script}:f").stdout
    for command in ("nan", "why", "retrace"):
        result = tapec(command, script)
        assert result.exit_code == 0, result.stderr
        assert "end" in result.stderr


BAD = "y = tapec.math.log(tapec.zeros([2]))"
#: Ways in which a script goes on, or does not, when a number was bad.
FOUND = {
    "plain": BAD,
    "caught": f"try: {BAD}\nexcept Exception: pass",
    "in a thread": f"import threading\ndef go():\n    {BAD}\nt = threading.Thread(target=go)\nt.start()\nt.join()",
    "fails of it": f"try: {BAD}\nexcept Exception: raise SystemExit(3)",
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("way", FOUND)
def test_nan_knows_what_a_script_hides(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file.py"
    path.write_text(f"import tapec\n{FOUND[way]}\n")
    result = tapec("nan", path)
    assert (result.exit_code, 'operation "log"' in result.stdout) == (1, True)


#: Other ends of a script, with what is said of them.
ENDS = {
    "tapec.reshape(tapec.ones([3]), [2])": "Error: ",  # of the class that a bad number raises
    "1 / 0": "file.py raises ZeroDivisionError: division by zero\n",
    "raise ValueError('one\\ntwo')": "file.py raises ValueError: one\n",
    "raise SystemExit('usage: file.py SIZE')": "file.py ended: usage: file.py SIZE\n",
    "raise SystemExit(3)": "file.py ended: exit code 3\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_script_is_no_answer(tmp_path: Path, end: str) -> None:
    """Neither is it an all-clear."""
    path = tmp_path / "file.py"
    path.write_text(f"import tapec\n{end}\n")
    for command in ("nan", "why", "retrace"):
        result = tapec(command, path)
        assert result.exit_code == 2, command
        assert ENDS[end] in result.stderr
        assert "no operation" not in result.stdout
        assert "no gradient" not in result.stdout


def test_why_explains_what_a_script_fails_of(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(
        "import tapec\nw = tapec.Variable(2.0)\nwith tapec.GradientTape() as tape:\n    y = tapec.stop_gradient(w)\n"
        "w.assign_sub(0.1 * tape.gradient(y, w))\n"
    )
    result = tapec("why", path)
    assert result.exit_code == 1
    assert "is cut by stop_gradient at line 4" in result.stdout
    assert "raises TypeError" in result.stderr
    (found,) = json.loads(tapec("why", path, "--json").stdout)
    assert found["line"] == 4


@pytest.mark.parametrize("argv", [["nan"], ["why"], ["retrace"], ["ir"]], ids=" ".join)
def test_who_interrupts_a_script_is_told_so(tmp_path: Path, argv: list[str]) -> None:
    path = tmp_path / "file.py"
    path.write_text(f"{FUNCTION}{CALL}\n{CALL.replace('5', '6')}\nraise KeyboardInterrupt\n")
    result = tapec(*argv, f"{path}:g" if argv == ["ir"] else path)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    if argv == ["retrace"]:
        assert "f was traced again" in result.stdout
