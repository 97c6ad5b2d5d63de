"""Programs that change what code of an installed package got at by ways that no name shows, for ``test_guards.py``."""

from __future__ import annotations

from state_scripts import Script


def package(code: str) -> str:
    """Code that makes what an installed package has; ``space`` are its globals."""
    made = f"exec(compile({code!r}, '/site-packages/pkg.py', 'exec'), space)"
    return f"space = {{'__name__': 'pkg'}}\n{made}\nglobals().update({{k: v for k, v in space.items() if k[0] != '_'}})"


#: A class with one rate, which a method reads in some way.
_RATED = "class A:\n rate = 1.0\n def __init__(s): s.rate = 2.0\n def g(s, n): return {0}\na = A()"
#: Several objects with rates.
_MANY = (
    "class A:\n def __init__(s, rate): s.rate = rate\nthings = [A(float(i)) for i in range({0})]\n"
)

_WAYS: dict[str, tuple[str, str, str, str]] = {
    "class by type": (_RATED.format("type(s).rate"), "a.g('')", "A.rate = 5.0", "rate"),
    "class by __class__": (_RATED.format("s.__class__.rate"), "a.g('')", "A.rate = 5.0", "rate"),
    "name that is made": (
        _RATED.format("getattr(s, 'ra' + n)"),
        "a.g('te')",
        "a.rate = 5.0",
        "rate",
    ),
    "attributes by vars": (_RATED.format("vars(s)['rate']"), "a.g('')", "a.rate = 5.0", "rate"),
    "text that is evaluated": (_RATED.format("eval('s.rate')"), "a.g('')", "a.rate = 5.0", "rate"),
    "getter of attributes": (
        "import operator\n" + _RATED.format("operator.attrgetter('rate')(s)"),
        "a.g('')",
        "a.rate = 5.0",
        "rate",
    ),
    "getter that is handed on": (
        _MANY.format(2)
        + "import operator\ndef g(): return sum(map(operator.attrgetter('rate'), things))",
        "g()",
        "things[1].rate = 5.0",
        "rate",
    ),
    "global by name": (
        "rate = 2.0\ndef g(n): return globals()[n]",
        "g('rate')",
        "space['rate'] = 5.0",
        "rate",
    ),
    "one of many": (
        _MANY.format(200) + "def g(): return sum(a.rate for a in things)",
        "g()",
        "things[150].rate = 5.0",
        "rate",
    ),
    "item of a long list": (
        "k = [1.0] * 5000\ndef g(): return sum(k)",
        "g()",
        "k[4990] = 5.0",
        "list",
    ),
    "rest that is unpacked": (
        _MANY.format(2) + "def g():\n a, *b = things\n return b[0].rate",
        "g()",
        "things[1].rate = 5.0",
        "rate",
    ),
    "first that is drawn": (
        _MANY.format(2) + "def g(): return 1 + next(iter(things)).rate",
        "g()",
        "things[0].rate = 5.0",
        "rate",
    ),
    "second key": ("t = {1: 2.0, 2: 3.0}\ndef g(n): return t[n]", "g(1) * g(2)", "t[2] = 5.0", "2"),
    "list under a key": (
        "t = {'a': [2.0]}\ndef g(n): return t.get(n)[0]",
        "g('a')",
        "t['a'][0] = 5.0",
        "list",
    ),
    "key that a call gives": (
        "t = {'a': 2.0}\ndef k(n): return n.lower()\ndef g(n): return t[k(n)]",
        "g('A')",
        "t['a'] = 5.0",
        "a",
    ),
    "key that is not there": (
        "class D(dict):\n def __missing__(s, k): return 2.0\nd = D()\ndef g(n): return d[n]",
        "g('a')",
        "d['a'] = 5.0",
        "a",
    ),
    "key that comes with None": (
        "t = {}\ndef g(n): return 7.0 if n in t else 1.0",
        "g('a')",
        "t['a'] = None",
        "a",
    ),
    "closure of a package": (
        "def made():\n k = 2.0\n def g(): return k\n def put(v):\n  nonlocal k\n  k = v\n return g, put\n"
        "g, put = made()",
        "g()",
        "put(5.0)",
        "k",
    ),
    "default that is a list": (
        "def g(k=[2.0]): return k[0]",
        "g()",
        "g.__defaults__[0][0] = 5.0",
        "list",
    ),
    "code of a package": (
        "def g(): return 2.0\ndef h(): return 5.0",
        "g()",
        "g.__code__ = h.__code__",
        "__code__",
    ),
    "class that an object gets": (
        "class A:\n def r(s): return 2.0\nclass B(A):\n def r(s): return 5.0\na = A()\ndef g(): return a.r()",
        "g()",
        "a.__class__ = B",
        "__class__",
    ),
    "class that is registered": (
        "import abc\nclass A(abc.ABC): pass\nclass B: pass\nb = B()\ndef g(): return 5.0 if isinstance(b, A) else 2.0",
        "g()",
        "A.register(B)",
        "registered",
    ),
    "result that a package's cache keeps": (
        "import functools\n@functools.lru_cache\ndef r(): return [2.0]\nr()\ndef g(): return r()[0]",
        "g()",
        "r()[0] = 5.0",
        "list",
    ),
    "environment in a package": (
        "import os\nos.environ['GUARDS_R'] = '2'\ndef g(): return float(os.environ.get('GUARDS_R', '7'))",
        "g()",
        "os.environ['GUARDS_R'] = '5'",
        "GUARDS_R",
    ),
}

SCRIPTS: dict[str, Script] = {
    **{
        name: Script(package(code), f"x * {returns}", change, names)
        for name, (code, returns, change, names) in _WAYS.items()
    },
    "metadata of a field": Script(
        "import dataclasses\nm = {'r': 2.0}\n@dataclasses.dataclass\nclass C:\n"
        " k: float = dataclasses.field(default=1.0, metadata=m)\nc = C()",
        "x * dataclasses.fields(c)[0].metadata['r']",
        "m['r'] = 5.0",
        "r",
    ),
    "default of a field": Script(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n k: float = 2.0\nc = C()",
        "x * dataclasses.fields(c)[0].default",
        "dataclasses.fields(c)[0].default = 5.0",
        "default",
    ),
    "text of an element": Script(
        "import xml.etree.ElementTree as E\ne = E.fromstring('<a>2</a>')",
        "x * float(e.text)",
        "e.text = '5'",
        "text",
    ),
    "attribute of an element": Script(
        "import xml.etree.ElementTree as E\ne = E.fromstring('<a r=\"2\"/>')",
        "x * float(e.attrib['r'])",
        "e.attrib['r'] = '5'",
        "r",
    ),
    "value of a member that is a number": Script(
        "import enum\nclass E(enum.IntEnum):\n A = 2", "x * E.A.value", "E.A._value_ = 5", "_value_"
    ),
    "thresholds of the collector": Script(
        "gc.set_threshold(700, 10, 10)",
        "x * gc.get_threshold()[0]",
        "gc.set_threshold(800, 10, 10)",
        "get_threshold",
    ),
    "patience of sockets": Script(
        "import socket\nsocket.setdefaulttimeout(2.0)",
        "x * socket.getdefaulttimeout()",
        "socket.setdefaulttimeout(5.0)",
        "getdefaulttimeout",
    ),
    "longest field of csv": Script(
        "import csv\ncsv.field_size_limit(1000)",
        "x * csv.field_size_limit()",
        "csv.field_size_limit(2000)",
        "field_size_limit",
    ),
}
