"""Programs that change what code of installed packages reads, or what Python keeps in C, for ``test_guards.py``."""

from __future__ import annotations

from state_scripts import Script

_LOGGER = (
    "import logging\nlogging.disable(0)\nlogging.getLogger('guards').setLevel(30)\n"
    "l = logging.getLogger('guards.{0}')\n"
)

#: A package in which one class is derived from another, and a method with some text in it.
_DERIVED = (
    "space = {{'__name__': 'derived'}}\nexec(compile('class A:\\n rate, table = 2.0, {{\"a\": 2.0}}\\n"
    "class B(A):\\n rate, table = 7.0, None\\n def g(s): return {0}', '/site-packages/derived.py', 'exec'), space)\n"
    "A, b = space['A'], space['B']()"
)

SCRIPTS: dict[str, Script] = {
    "private field of an object of Python's": Script(
        "from fractions import Fraction\nk = Fraction(1, 2)",
        "x * float(k)",
        "k._numerator = 5",
        "_numerator",
    ),
    "text of a template": Script(
        "import string\nt = string.Template('2')",
        "x * float(t.substitute())",
        "t.template = '4'",
        "template",
    ),
    "member of an enumeration": Script(
        "import enum\nclass E(enum.Enum):\n A = 2.0\nname = 'A'",
        "x * E[name].value",
        "E.A._value_ = 5.0",
        "_value_",
    ),
    "members of an enumeration": Script(
        "import enum\nclass E(enum.Enum):\n A = 2.0\n B = 3.0",
        "x * sum(m.value for m in E)",
        "E.B._value_ = 5.0",
        "_value_",
    ),
    "list that a member is": Script(
        "import enum\nclass E(enum.Enum):\n A = [2.0]",
        "x * E.A.value[0]",
        "E.A.value[0] = 5.0",
        "list",
    ),
    "level of a logger": Script(
        _LOGGER.format("a"), "x * 2 if l.isEnabledFor(20) else x", "l.setLevel(10)", ""
    ),
    "level of a logger's parent": Script(
        _LOGGER.format("b"),
        "x * l.getEffectiveLevel()",
        "logging.getLogger('guards').setLevel(10)",
        "level",
    ),
    "all loggers": Script(
        _LOGGER.format("c") + "l.setLevel(10)",
        "x * 2 if l.isEnabledFor(20) else x",
        "logging.disable(50)",
        "",
    ),
    "method that is dispatched": Script(
        "import functools\nclass A:\n @functools.singledispatchmethod\n def g(s, v): return 2.0\na = A()",
        "x * a.g(1)",
        "A.__dict__['g'].register(int)(lambda s, v: 5.0)",
        "",
    ),
    "object of NumPy's": Script(
        "p = np.poly1d([1.0, 2.0])", "x * float(p(1.0))", "p.coeffs[0] = 5.0", ""
    ),
    "environment in a path": Script(
        "import os\nos.environ['GUARDS_Q'] = '2'",
        "x * float(os.path.expandvars('$GUARDS_Q'))",
        "os.environ['GUARDS_Q'] = '5'",
        "",
    ),
    "finalizer": Script(
        "import weakref\nclass A: pass\na = A()\nfin = weakref.finalize(a, print)\nfin.atexit = False",
        "x * 2 if fin.alive else x",
        "fin.detach()",
        "",
    ),
    "a package's own registry": Script(
        "import optree, uuid\nclass N:\n def __init__(s, k): s.k = k\nn, space = N([2.0]), str(uuid.uuid4())",
        "x * sum(v if isinstance(v, float) else 1.0 for v in optree.tree_leaves(n, namespace=space))",
        "optree.register_pytree_node(N, lambda n: (n.k, None, None), lambda a, c: N(list(c)), namespace=space)",
        "",
    ),
    "future": Script(
        "from concurrent.futures import Future\nu = Future()",
        "x * 2 if u.done() else x",
        "u.set_result(1)",
        "_state",
    ),
    "defaults of a named tuple": Script(
        "from collections import namedtuple\nP = namedtuple('P', 'a', defaults=[2.0])",
        "x * P().a",
        "P.__new__.__defaults__ = (5.0,)",
        "__defaults__",
    ),
    "settings of NumPy's printing": Script(
        "a = np.array([1.23456789])", "x * len(str(a))", "np.set_printoptions(precision=3)", ""
    ),
    "errors of NumPy": Script(
        "np.seterr(over='warn')",
        "x * 2 if np.geterr()['over'] == 'warn' else x",
        "np.seterr(over='ignore')",
        "",
    ),
    "rounding of decimal": Script(
        "import decimal\ndecimal.getcontext().prec = 28\nD = decimal.Decimal",
        "x * float(1000 * (D(1) / D(3)))",
        "decimal.getcontext().prec = 2",
        "decimal.getcontext()",
    ),
    "a context of decimal": Script(
        "import decimal\nc, D = decimal.Context(prec=28), decimal.Decimal",
        "x * float(c.divide(D(1), D(3)))",
        "c.prec = 2",
        "decimal.Context",
    ),
    "handler of a signal": Script(
        "import signal\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "x * 2 if signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN else x",
        "signal.signal(signal.SIGUSR2, signal.SIG_DFL)",
        "getsignal",
    ),
    "digits of integers as texts": Script(
        "import sys\nsys.set_int_max_str_digits(4300)",
        "x * sys.get_int_max_str_digits()",
        "sys.set_int_max_str_digits(5000)",
        "sys.get_int_max_str_digits()",
    ),
    "lock": Script(
        "import threading\nl = threading.Lock()",
        "x * 2 if l.locked() else x",
        "l.acquire()",
        "locked",
    ),
    "queue in C": Script(
        "import queue\nq = queue.SimpleQueue()", "x * (1 + q.qsize())", "q.put(1)", "qsize"
    ),
    "text in memory": Script(
        "import io\ns = io.StringIO('2')",
        "x * float(s.getvalue())",
        "s.seek(0); s.write('5')",
        "getvalue",
    ),
    "memory of a map": Script(
        "import mmap\nm = mmap.mmap(-1, 8); m[0] = 2", "x * m[0]", "m[0] = 5", "m"
    ),
    "pointer": Script(
        "import ctypes\nv = ctypes.c_int(2); p = ctypes.pointer(v)",
        "x * p.contents.value",
        "v.value = 5",
        "p.contents",
    ),
    "context that is not entered": Script(
        "import contextvars\nv = contextvars.ContextVar('v'); c = contextvars.copy_context(); c.run(v.set, 2.0)",
        "x * c[v]",
        "c.run(v.set, 3.0)",
        "c[",
    ),
    "partial that gets another state": Script(
        "import functools\ng = functools.partial(lambda k, x: x * k, 2.0)",
        "g(x)",
        "g.__setstate__((g.func, (5.0,), {}, {}))",
        "g.args",
    ),
    "flags of an array": Script(
        "a = np.ones(2)",
        "x * 2 if a.flags.writeable else x",
        "a.flags.writeable = False",
        "a.flags",
    ),
    "elements through a flat view": Script(
        "a = np.ones(2).flat", "x * float(a[0])", "a[0] = 3.0", "a.base"
    ),
    "object that only a weak reference knows": Script(
        "import weakref\nclass A: pass\na = A(); a.k = 2.0\nr = weakref.ref(a)",
        "x * (7.0 if r() is None else r().k)",
        "del a; gc.collect()",
        "k",
    ),
    "object behind a proxy that ends": Script(
        "import weakref\nclass A: pass\na = A(); a.k = 2.0\np = weakref.proxy(a)\n"
        "def g(x):\n try: return x * p.k\n except ReferenceError: return x * 7",
        "g(x)",
        "del a; gc.collect()",
        "k",
    ),
    "descriptor that an entry hides": Script(
        "class D:\n def __get__(s, o, t=None): return 2.0\nclass A: k = D()\na = A()",
        "x * a.k",
        "a.__dict__['k'] = 7.0",
        "a.k",
    ),
    "slot by its descriptor": Script(
        "class A: __slots__ = ('k',)\na = A(); a.k = 2.0\nget = A.k.__get__",
        "x * get(a)",
        "a.k = 3.0",
        "a.k",
    ),
    "attribute past all lookups": Script(
        "import inspect\nclass A: pass\na = A(); a.k = 2.0",
        "x * inspect.getattr_static(a, 'k')",
        "a.k = 3.0",
        "a.k",
    ),
    "module of another class": Script(
        "import types\nclass M(types.ModuleType): k = property(lambda s: 7.0)\n"
        "m = types.ModuleType('m'); m.__file__ = '/x/m.py'; m.k = 2.0",
        "x * m.k",
        "m.__class__ = M",
        "m.__class__",
    ),
    "module that takes another's place": Script(
        "import sys, types, uuid\nname = 'm' + uuid.uuid4().hex\n"
        "def module(k):\n m = sys.modules[name] = types.ModuleType(name); m.__file__ = '/x/m.py'; m.k = k\n"
        "module(2.0)\nexec(f'def g(x):\\n import {name}\\n return x * {name}.k')",
        "g(x)",
        "module(3.0)",
        "m",
    ),
    "list that a cache gave": Script(
        "import functools\n@functools.lru_cache\ndef g(): return [2.0]",
        "x * g()[0]",
        "g()[0] = 5.0",
        "g(...)[0]",
    ),
    "object that a cache without bounds gave": Script(
        "import functools\nclass A: k = 2.0\n@functools.cache\ndef g(): return A()\ng()",
        "x * g().k",
        "g().k = 5.0",
        "g(...).k",
    ),
    "attribute of the class above": Script(
        _DERIVED.format("super().rate"), "x * b.g()", "A.rate = 5.0", "rate"
    ),
    "attribute of the class above one that is named": Script(
        _DERIVED.format("super(B, s).rate"), "x * b.g()", "A.rate = 5.0", "rate"
    ),
    "attribute of the class above by a text": Script(
        _DERIVED.format('getattr(super(), "rate")'), "x * b.g()", "A.rate = 5.0", "rate"
    ),
    "item of the class above": Script(
        _DERIVED.format('super().table["a"]'), "x * b.g()", "A.table['a'] = 5.0", "a"
    ),
    "property of a class of the user's": Script(
        "class P(property):\n f = 2.0\n def __get__(s, o, t=None): return super().__get__(o, t) * s.f\n"
        "class A:\n @P\n def v(s): return 1.0\na = A()",
        "x * a.v",
        "P.f = 5.0",
        "P.f",
    ),
}
