"""Programs that change classes, and what Python finds without a name that leads there, for ``test_guards.py``."""

from __future__ import annotations

from state_scripts import Script

SCRIPTS: dict[str, Script] = {
    "truth of an object": Script(
        "class A: pass\na = A()", "x * 2 if a else x", "A.__bool__ = lambda s: False", "A.__bool__"
    ),
    "base class of an object made inside": Script(
        "class A:\n def k(self): return 2.0\nclass B(A):\n def k(self): return super().k() + 1",
        "x * B().k()",
        "A.k = lambda self: 7.0",
        "A.k",
    ),
    "other base class": Script(
        "class A:\n k = 2.0\nclass C:\n k = 5.0\nclass B(A): pass",
        "x * B().k",
        "B.__bases__ = (C,)",
        "B.k",
    ),
    "metaclass": Script(
        "class M(type):\n k = 2.0\nclass A(metaclass=M): pass", "x * A.k", "M.k = 3.0", "M.k"
    ),
    "what is an instance": Script(
        "class M(type):\n ok = True\n def __instancecheck__(c, o): return c.ok\nclass A(metaclass=M): pass",
        "x * 2 if isinstance(3, A) else x",
        "M.ok = False",
        "M.ok",
    ),
    "registered class": Script(
        "import abc\nclass I(abc.ABC): pass\nclass A: pass",
        "x * 2 if isinstance(A(), I) else x",
        "I.register(A)",
        "registered with I",
    ),
    "derived classes": Script(
        "class A: pass",
        "x * (1 + len(A.__subclasses__()))",
        "class C(A): pass",
        "A.__subclasses__()",
    ),
    "walk over base classes": Script(
        "class A:\n k = 1.0\nclass B(A):\n k = 2.0",
        "x * sum(vars(c).get('k', 0.0) for c in B.__mro__)",
        "A.k = 5.0",
        "A.k",
    ),
    "descriptor replaced": Script(
        "class D:\n def __init__(s, k): s.k = k\n def __get__(s, o, t=None): return s.k\n"
        "class A:\n k = D(2.0)\na = A()",
        "x * a.k",
        "A.k = D(3.0)",
        "A.k",
    ),
    "attribute of a number": Script(
        "class F(float): pass\nt = F(1.0); t.k = 2.0", "x * t.k", "t.k = 3.0", "t.k"
    ),
    "match on a dict": Script(
        "held = {'k': 'a'}\ndef g(x):\n match held:\n  case {'k': 'a'}: return x * 2\n  case _: return x",
        "g(x)",
        "held['k'] = 'b'",
        "held['k']",
    ),
    "match by position": Script(
        "class P:\n __match_args__ = ('a',)\n def __init__(s, a): s.a = a\np = P(1)\n"
        "def g(x):\n match p:\n  case P(v): return x * v",
        "g(x)",
        "p.a = 5",
        "p.a",
    ),
    "match by attribute": Script(
        "class P: pass\np = P(); p.k = 2\ndef g(x):\n match p:\n  case P(k=v): return x * v",
        "g(x)",
        "p.k = 3",
        "p.k",
    ),
    "view of a dict": Script("d = {'a': 2.0}\nv = d.values()", "x * sum(v)", "d['a'] = 3.0", "v"),
    "factory of missing entries": Script(
        "from collections import defaultdict\nd = defaultdict(lambda: 2.0)",
        "x * (d['q'], d.pop('q'))[0]",
        "d.default_factory = lambda: 3.0",
        "d.default_factory",
    ),
    "contents of a context variable": Script(
        "from contextvars import ContextVar\nv = ContextVar('v'); v.set([2.0])",
        "x * v.get()[0]",
        "v.get()[0] = 3.0",
        "v.get()[0]",
    ),
    "thread's own state that appears": Script(
        "import threading\nown = threading.local()",
        "x * getattr(own, 'k', 2.0)",
        "own.k = 3.0",
        "own.k",
    ),
    "global by a name that is made": Script(
        "k_1 = 2.0", "x * globals()['k_' + str(1)]", "k_1 = 3.0", "k_1"
    ),
    "attribute by object's own lookup": Script(
        "class A: pass\na = A(); a.k = 2.0",
        "x * object.__getattribute__(a, 'k')",
        "a.k = 3.0",
        "a.k",
    ),
    "attribute in a format": Script(
        "class A: pass\na = A(); a.k = 2.0", "x * float('{0.k}'.format(a))", "a.k = 3.0", "a.k"
    ),
    "event": Script(
        "import threading\nstop = threading.Event()",
        "x if stop.is_set() else x * 2",
        "stop.set()",
        "stop._flag",
    ),
    "single dispatch": Script(
        "import functools\n@functools.singledispatch\ndef g(o): return 2.0",
        "x * g(3)",
        "g.register(int)(lambda o: 3.0)",
        "g.registry",
    ),
    "what was cached before": Script(
        "import functools\nk = 2.0\n@functools.cache\ndef g(): return k\ng()",
        "x * g()",
        "k = 3.0; g.cache_clear()",
        "k",
    ),
    "function of an installed module": Script(
        "import decimal\ndecimal.k_of_mine = lambda: 2.0",
        "x * decimal.k_of_mine()",
        "decimal.k_of_mine = lambda: 3.0",
        "decimal.k_of_mine",
    ),
    "Variable that a Module below gets": Script(
        "n = tapec.Module(); n.l = tapec.Module(); n.l.w = tapec.Variable(2.0)",
        "x * tapec.add_n(list(n.trainable_variables))",
        "n.l.more = tapec.Variable(4.0)",
        "n.l.more",
    ),
    "number of C": Script(
        "import ctypes\nk = ctypes.c_double(2.0)", "x * k.value", "k.value = 3.0", "k"
    ),
    "shape of an array in place": Script(
        "k = np.array([[1.0], [2.0]], np.float32)",
        "tapec.reduce_sum(x * k, 0)",
        "k.resize(2, refcheck=False)",
        "k",
    ),
}
