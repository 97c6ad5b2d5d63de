"""Programs that change what caches, abstract classes and packages' classes keep, for ``test_guards.py``."""

from __future__ import annotations

from state_scripts import Script

SCRIPTS: dict[str, Script] = {
    "cache that is cleared": Script(
        "import functools\nks = [2.0]\n@functools.cache\ndef g(n, m=0): return ks[0] * n\ng(3, m=1)",
        "x * g(3, m=1)",
        "ks[0] = 5.0; g.cache_clear()",
        "what g keeps",
    ),
    "cache that has room for one result": Script(
        "import functools\nruns = [2.0]\n@functools.lru_cache(maxsize=1)\ndef g(k): return list(runs)",
        "x * g(3)[0]",
        "runs[0] = 5.0; g(4)",
        "what g keeps for 3",
    ),
    "what a cache tells": Script(
        "import functools\ng = functools.cache(float)\ng(1)",
        "x * g.cache_info().currsize",
        "g(5)",
        "cache_info",
    ),
    "class registered with one of Python's": Script(
        "import collections.abc\nclass A: pass",
        "x * 2 if isinstance(A(), collections.abc.Sequence) else x",
        "collections.abc.Sequence.register(A)",
        "registered with Sequence",
    ),
    "class registered with a derived one": Script(
        "from collections import abc\nclass A: pass",
        "x * 2 if issubclass(A, abc.Collection) else x",
        "abc.MutableSequence.register(A)",
        "registered with Collection",
    ),
    "class that fits a pattern": Script(
        "import collections.abc\nclass A: pass\ndef g(x, a):\n match a:\n  case {}: return x * 2\n  case _: return x",
        "g(x, A())",
        "collections.abc.Mapping.register(A)",
        "registered with Mapping",
    ),
    "method that a protocol asks for": Script(
        "import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n def run(self): ...\n"
        "class A: pass",
        "x * 2 if isinstance(A(), P) else x",
        "A.run = lambda self: 1",
        "A.run",
    ),
    "attribute of a package's class": Script(
        "import logging\nlogging.Filterer.rate = 2.0",
        "x * logging.Logger.rate",
        "logging.Logger.rate = 5.0",
        "Logger.rate",
    ),
    "attribute of a package's object that hides its class's": Script(
        "import logging\nlogging.Filterer.rate = 2.0\nlog = logging.getLogger('hidden')\nvars(log).pop('rate', None)",
        "x * log.rate",
        "log.rate = 9.0",
        "log.rate",
    ),
    "attribute of a package's class that appears": Script(
        "import logging\nif hasattr(logging.Filterer, 'speed'): del logging.Filterer.speed",
        "x * getattr(logging.Logger, 'speed', 1.0)",
        "logging.Filterer.speed = 3.0",
        "Logger.speed",
    ),
    "class of a package that is replaced": Script(
        "import textwrap\nclass Wide(textwrap.TextWrapper): x = 9.0\ntextwrap.Wrapper = textwrap.TextWrapper\n"
        "textwrap.TextWrapper.x = 2.0",
        "x * textwrap.Wrapper.x",
        "textwrap.Wrapper = Wide",
        "textwrap.Wrapper",
    ),
    "setting of a package's module": Script(
        "import logging.handlers\nlogging.handlers.MORE = 2.0",
        "x * logging.handlers.MORE",
        "logging.handlers.MORE = 5.0",
        "logging.handlers.MORE",
    ),
    "members of a weak set that the function adds to": Script(
        "import weakref\nclass A:\n all = weakref.WeakSet()\n def __init__(self): A.all.add(self)\nkept = [A()]",
        "(lambda a: x * len(A.all))(A())",
        "kept.append(A())",
        "A.all",
    ),
    "entry by a method that was taken from a dict": Script(
        "ks = {'a': 2.0}\nget = ks.get", "x * get('a')", "ks['a'] = 5.0", "['a']"
    ),
    "length by a method that was taken from a list": Script(
        "ks = [2.0]\nlength = ks.__len__", "x * length()", "ks.append(1)", "len("
    ),
    "generator that is closed": Script(
        "def made(): yield 1\ng = made()",
        "x * (2.0 if g.gi_frame is None else 1.0)",
        "g.close()",
        "g.gi_frame",
    ),
    "arguments of an exception": Script(
        "error = ValueError(2.0)", "x * error.args[0]", "error.args = (5.0,)", "error.args"
    ),
    "file that is closed": Script(
        "file = open('/dev/null')",
        "x * (2.0 if file.closed else 1.0)",
        "file.close()",
        "file.closed",
    ),
    "module that is loaded": Script(
        "import sys\nsys.modules.pop('kept_none', None)",
        "x * 2 if 'kept_none' in sys.modules else x",
        "sys.modules['kept_none'] = sys",
        "'kept_none' in sys.modules",
    ),
    "key that a dict does not have": Script(
        "ks = {}", "x * 2 if 'a' in ks else x", "ks['a'] = 1", "'a' in ks"
    ),
}
