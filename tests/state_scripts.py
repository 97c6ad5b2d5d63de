"""Programs that change what a compiled function reads, for ``test_guards.py``.

Each is what is there before, the body of ``f(x)``, the change, and what the reason of the retrace has to name.
"""

from __future__ import annotations

from typing import NamedTuple


class Script(NamedTuple):
    """One program."""

    before: str
    returns: str
    change: str
    names: str


#: A class with state of many kinds, and one object of it.
MODEL = """
class Model:
    rate = 2.0
    def __init__(self):
        self.scale, self.parts, self.table = 3.0, [1.0, 2.0], {"a": 1.0, "b": 2.0}
        self.inner = Inner()
    def apply(self, x): return x * self.scale
    @property
    def doubled(self): return self.scale * 2
class Inner:
    def __init__(self): self.bias = 1.0
    def __call__(self, x): return x + self.bias
model = Model()
"""

SCRIPTS: dict[str, Script] = {
    "global": Script("k = 2.0", "x * k", "k = 3.0", "k"),
    "global of another type": Script("k = 2", "x * k + (k is True)", "k = True", "k"),
    "negative zero": Script("k = 0.0", "tapec.atan2(x * k, -x)", "k = -0.0", "k"),
    "global that hides a builtin": Script("", "x * abs(-2.0)", "abs = lambda v: 5.0", "abs"),
    "global that is deleted": Script(
        "k = 2.0\nimport builtins\nbuiltins.k = 7.0", "x * k", "del k", "k"
    ),
    "closure": Script(
        "def make(k):\n def set(v):\n  nonlocal k\n  k = v\n return (lambda x: x * k), set\ng, set = make(2.0)",
        "g(x)",
        "set(5.0)",
        "k",
    ),
    "attribute": Script(MODEL, "model.apply(x)", "model.scale = 4.0", "model.scale"),
    "nested attribute": Script(
        MODEL, "x + model.inner.bias", "model.inner.bias = 4.0", "model.inner.bias"
    ),
    "attribute read by a method": Script(
        MODEL, "model.inner(x)", "model.inner.bias = 4.0", "model.inner.bias"
    ),
    "object replaced": Script(
        MODEL, "model.inner(x)", "model.inner = Inner(); model.inner.bias = 3.0", "model.inner"
    ),
    "class attribute": Script(MODEL, "x * model.rate", "Model.rate = 4.0", "model.rate"),
    "class attribute hidden": Script(MODEL, "x * model.rate", "model.rate = 4.0", "model.rate"),
    "attribute by name": Script(MODEL, "x * getattr(model, 'scale')", "model.scale = 4.0", "scale"),
    "attribute by a name that is state": Script(
        MODEL + "name = 'scale'", "x * getattr(model, name)", "model.scale = 4.0", "model.scale"
    ),
    "attribute that appears": Script(
        MODEL, "x * 2 if hasattr(model, 'fast') else x", "model.fast = True", "model.fast"
    ),
    "all attributes": Script(MODEL, "x * vars(model)['scale']", "model.scale = 4.0", "model.scale"),
    "property": Script(MODEL, "x * model.doubled", "model.scale = 4.0", "model.scale"),
    "property replaced": Script(
        MODEL, "x * model.doubled", "Model.doubled = property(lambda self: 9.0)", "model.doubled"
    ),
    "__getattr__": Script(
        "class Loose:\n def __init__(self): self.held = {'k': 2.0}\n def __getattr__(self, n): return self.held[n]\n"
        "loose = Loose()",
        "x * loose.k",
        "loose.held['k'] = 3.0",
        "loose.held['k']",
    ),
    "slots": Script(
        "class Point:\n __slots__ = ('k',)\n def __init__(self): self.k = 2.0\npoint = Point()",
        "x * point.k",
        "point.k = 3.0",
        "point.k",
    ),
    "method replaced on the class": Script(
        MODEL, "model.apply(x)", "Model.apply = lambda self, x: x * 7", "model.apply"
    ),
    "method replaced on the object": Script(
        MODEL, "model.apply(x)", "model.apply = lambda x: x * 7", "model.apply"
    ),
    "__call__ replaced": Script(
        MODEL, "model.inner(x)", "Inner.__call__ = lambda self, x: x * 7", "Inner.__call__"
    ),
    "list item": Script("ks = [1.0, 2.0]", "x * ks[1]", "ks[1] = 4.0", "ks[1]"),
    "list item of a list": Script(
        "ks = [[1.0], [2.0]]", "x * ks[1][0]", "ks[1][0] = 4.0", "ks[1][0]"
    ),
    "list grows": Script("ks = [1.0, 2.0]", "x * sum(ks)", "ks.append(4.0)", "len(ks)"),
    "list order": Script("ks = [1.0, 2.0]", "x * ks[0] + ks[1]", "ks.reverse()", "ks[0]"),
    "length of a list": Script("ks = [1.0, 2.0]", "x * len(ks)", "ks.append(4.0)", "len(ks)"),
    "list of an attribute": Script(
        MODEL, "x * model.parts[0]", "model.parts[0] = 5.0", "model.parts[0]"
    ),
    "objects of a list": Script(
        MODEL + "layers = [Inner(), Inner()]",
        "layers[1](layers[0](x))",
        "layers[1].bias = 5.0",
        "layers[1].bias",
    ),
    "objects behind zip": Script(
        MODEL + "layers = [Inner()]",
        "sum(x * l.bias * k for l, k in zip(layers, [2.0]))",
        "layers[0].bias = 5.0",
        "layers[0].bias",
    ),
    "dict entry": Script("ks = {'a': 2.0}", "x * ks['a']", "ks['a'] = 4.0", "ks['a']"),
    "dict entry by get": Script("ks = {}", "x * ks.get('a', 1.0)", "ks['a'] = 4.0", "ks['a']"),
    "dict order": Script(
        "ks = {'a': 2.0, 'b': 3.0}",
        "x * list(ks.values())[0]",
        "ks['a'] = ks.pop('a')",
        "the order of ks",
    ),
    "dict iteration": Script("ks = {'a': 2.0}", "x * sum(ks.values())", "ks['b'] = 4.0", "ks['b']"),
    "set membership": Script("on = {'a'}", "x * 2 if 'b' in on else x", "on.add('b')", "on"),
    "deque": Script(
        "from collections import deque\nks = deque([1.0, 2.0])",
        "x * ks[0]",
        "ks.rotate(1)",
        "ks[0]",
    ),
    "items of a user's dict": Script(
        "from collections import UserDict\nks = UserDict(a=2.0)",
        "x * ks['a']",
        "ks['a'] = 4.0",
        "ks.data['a']",
    ),
    "elements of an array that NumPy reads": Script(
        "ks = np.ones(3, np.float32)", "x * float(ks.max())", "ks[0] = 4.0", "ks"
    ),
    "element of an array": Script("ks = np.ones(3)", "x * float(ks[0])", "ks[0] = 4.0", "ks"),
    "array to a function of NumPy": Script(
        "ks = np.ones(3)", "x * float(np.sum(ks)) + ks.shape[0]", "ks[0] = 4.0", "ks"
    ),
    "array that is input and read": Script(
        "ks = np.ones(2, np.float32)", "x * ks / float(ks.sum())", "ks[0] = 4.0", "ks"
    ),
    "array rebound": Script(
        "ks = np.ones(2, np.float32)", "x * ks", "ks = np.full(2, 3.0, np.float32)", "ks"
    ),
    "array of another shape": Script(
        "ks = np.ones(2, np.float32)", "x * ks", "ks = np.full((2, 2), 3.0, np.float32)", "ks"
    ),
    "array in a list": Script(
        "ks = [np.ones(2, np.float32)]", "x * ks[0]", "ks[0] = np.full(2, 3.0, np.float32)", "ks[0]"
    ),
    "user's module": Script(
        "import sys, types\nsettings = types.ModuleType('settings')\nsettings.__file__ = '/x/settings.py'\n"
        "settings.k = 2.0",
        "x * settings.k",
        "settings.k = 3.0",
        "settings.k",
    ),
    "function replaced": Script("def g(x): return x * 2", "g(x)", "def g(x): return x * 3", "g"),
    "lambda replaced": Script("g = lambda x: x * 2", "g(x)", "g = lambda x: x * 3", "g"),
    "code replaced": Script(
        "def g(x): return x * 2\ndef h(x): return x * 3",
        "g(x)",
        "g.__code__ = h.__code__",
        "g.__code__",
    ),
    "global of a helper": Script("k = 2.0\ndef g(x): return x * k", "g(x)", "k = 3.0", "k"),
    "global of a function behind a decorator": Script(
        "import functools\nk = 2.0\ndef twice(f):\n @functools.wraps(f)\n def g(x): return f(f(x))\n return g\n"
        "@twice\ndef g(x): return x * k",
        "g(x)",
        "k = 3.0",
        "k",
    ),
    "what a helper returns": Script(
        MODEL + "def current(): return model",
        "x * current().scale",
        "model.scale = 5.0",
        "model.scale",
    ),
    "bound method": Script(
        MODEL + "g = model.apply", "g(x)", "model.scale = 5.0", "g.__self__.scale"
    ),
    "bound method replaced": Script(
        MODEL + "other = Model()\nother.scale = 9.0\ng = model.apply",
        "g(x)",
        "g = other.apply",
        "g",
    ),
    "default argument": Script(
        "def g(x, ks=[2.0]): return x * ks[0]",
        "g(x)",
        "g.__defaults__[0][0] = 3.0",
        "g.__defaults__[0][0]",
    ),
    "default arguments replaced": Script(
        "def g(x, k=2.0): return x * k", "g(x)", "g.__defaults__ = (3.0,)", "g.__defaults__"
    ),
    "keyword default": Script(
        "def g(x, *, k=2.0): return x * k",
        "g(x)",
        "g.__kwdefaults__['k'] = 3.0",
        "g.__kwdefaults__['k']",
    ),
    "partial": Script(
        "import functools\nks = [2.0]\ndef h(x, ks): return x * ks[0]\ng = functools.partial(h, ks=ks)",
        "g(x)",
        "ks[0] = 3.0",
        "g.keywords['ks'][0]",
    ),
    "partial replaced": Script(
        "import functools\ndef h(x, k): return x * k\ng = functools.partial(h, k=2.0)",
        "g(x)",
        "g = functools.partial(h, k=3.0)",
        "g",
    ),
    "function attribute": Script("def g(x): return x * g.k\ng.k = 2.0", "g(x)", "g.k = 3.0", "g.k"),
    "dataclass field": Script(
        "import dataclasses\n@dataclasses.dataclass\nclass Config:\n rate: float = 2.0\nconfig = Config()",
        "x * config.rate",
        "config.rate = 3.0",
        "config.rate",
    ),
    "dataclass as a dict": Script(
        "import dataclasses\n@dataclasses.dataclass\nclass Config:\n rate: float = 2.0\nconfig = Config()",
        "x * dataclasses.asdict(config)['rate']",
        "config.rate = 3.0",
        "config.rate",
    ),
    "enum flag": Script(
        "import enum\nMode = enum.Enum('Mode', 'TRAIN TEST')\nmode = Mode.TRAIN",
        "x * 2 if mode is Mode.TRAIN else x",
        "mode = Mode.TEST",
        "mode",
    ),
    "named tuple": Script(
        "from typing import NamedTuple\nclass Config(NamedTuple):\n rate: float = 2.0\nconfig = Config()",
        "x * config.rate",
        "config = Config(3.0)",
        "config",
    ),
    "simple namespace": Script(
        "from types import SimpleNamespace\nconfig = SimpleNamespace(rate=2.0)",
        "x * config.rate",
        "config.rate = 3.0",
        "config.rate",
    ),
    "Variable replaced": Script(
        "model = tapec.Module()\nmodel.v = tapec.Variable(2.0)",
        "x * model.v",
        "model.v = tapec.Variable(3.0)",
        "model.v",
    ),
    "list of Variables grows": Script(
        "vs = [tapec.Variable(2.0)]",
        "tapec.add_n([x * v for v in vs])",
        "vs.append(tapec.Variable(3.0))",
        "len(vs)",
    ),
    "Variables of a Module": Script(
        "model = tapec.Module()\nmodel.vs = [tapec.Variable(2.0)]",
        "tapec.add_n([x * v for v in model.trainable_variables])",
        "model.vs.append(tapec.Variable(3.0))",
        "len(model.vs)",
    ),
    "Variable that an attribute gets": Script(
        "model = tapec.Module()\nmodel.v, model.w = tapec.Variable(2.0), None",
        "x * sum(tapec.convert_to_tensor(v) for v in model.variables)",
        "model.w = tapec.Variable(3.0)",
        "model.w",
    ),
    "compiled helper": Script(
        "k = 2.0\n@tapec.compile\ndef g(x): return x * k", "g(x)", "k = 3.0", "k"
    ),
    "Tensor of an attribute": Script(
        "class Box: pass\nbox = Box()\nbox.t = tapec.constant(2.0)",
        "x * box.t",
        "box.t = tapec.constant(3.0)",
        "box.t",
    ),
    "branch of a cond": Script(
        "k = 2.0", "tapec.cond(x[0] > 0, lambda: x * k, lambda: x)", "k = 3.0", "k"
    ),
    "body of a loop": Script(
        "k = 2.0",
        "tapec.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * k), (0, x))[1]",
        "k = 3.0",
        "k",
    ),
    "learning rate decay of an optimizer": Script(
        "v = tapec.Variable([1.0, 1.0])\nopt = tapec.optimizers.SGD(0.1, clipnorm=1.0)",
        "opt.apply_gradients([(x * 1.0, v)]) is None or v + 0.0",
        "opt.clipnorm = 0.1",
        "opt.clipnorm",
    ),
    "class through type": Script(MODEL, "x * type(model).rate", "Model.rate = 4.0", "Model.rate"),
    "base class through super": Script(
        "class A:\n rate = 2.0\nclass B(A):\n rate = 5.0\n def get(self): return super().rate\nb = B()",
        "x * b.get()",
        "A.rate = 3.0",
        "A.rate",
    ),
    "class method": Script(
        "class A:\n rate = 2.0\n @classmethod\n def get(cls): return cls.rate\nget = A.get",
        "x * get()",
        "A.rate = 3.0",
        "get.__self__.rate",
    ),
    "static method replaced": Script(
        "class A:\n @staticmethod\n def get(): return 2.0\na = A()",
        "x * a.get()",
        "A.get = staticmethod(lambda: 3.0)",
        "a.get",
    ),
    "module imported inside": Script(
        "import sys, types\nm = sys.modules['state_settings'] = types.ModuleType('state_settings')\nm.k = 2.0\n"
        "m.__file__ = '/x/state_settings.py'\ndef g(x):\n import state_settings\n return x * state_settings.k",
        "g(x)",
        "m.k = 3.0",
        "state_settings.k",
    ),
    "name imported inside": Script(
        "import sys, types\nm = sys.modules['state_names'] = types.ModuleType('state_names')\nm.k = 2.0\n"
        "m.__file__ = '/x/state_names.py'\ndef g(x):\n from state_names import k\n return x * k",
        "g(x)",
        "m.k = 3.0",
        "state_names.k",
    ),
    "setting of an installed module": Script(
        "import decimal\ndecimal.MAX_PREC_OF_MINE = 2.0",
        "x * decimal.MAX_PREC_OF_MINE",
        "decimal.MAX_PREC_OF_MINE = 3.0",
        "decimal.MAX_PREC_OF_MINE",
    ),
    "environment": Script(
        "import os\nos.environ['STATE_SCRIPT'] = '2'",
        "x * float(os.environ['STATE_SCRIPT'])",
        "os.environ['STATE_SCRIPT'] = '3'",
        "os.environ",
    ),
    "environment by getenv": Script(
        "import os\nos.environ.pop('STATE_SCRIPT', None)",
        "x * float(os.getenv('STATE_SCRIPT', '1'))",
        "os.environ['STATE_SCRIPT'] = '3'",
        "os.environ",
    ),
    "context variable": Script(
        "from contextvars import ContextVar\nk = ContextVar('k', default=2.0)",
        "x * k.get()",
        "k.set(3.0)",
        "k",
    ),
    "globals by name": Script("k = 2.0", "x * globals()['k']", "k = 3.0", "k"),
    "evaluated text": Script("k = 2.0", "x * eval('k + 1')", "k = 3.0", "k"),
    "getter of attributes": Script(
        MODEL + "import operator\nget = operator.attrgetter('inner.bias')",
        "x * get(model)",
        "model.inner.bias = 3.0",
        "model.inner.bias",
    ),
    "weak reference": Script(
        MODEL + "import weakref\nref = weakref.ref(model)",
        "x * ref().scale",
        "model.scale = 5.0",
        "scale",
    ),
    "proxy of a dict": Script(
        "import types\nheld = {'k': 2.0}\nk = types.MappingProxyType(held)",
        "x * k['k']",
        "held['k'] = 3.0",
        "k",
    ),
    "chain of dicts": Script(
        "from collections import ChainMap\nk = ChainMap({}, {'k': 2.0})",
        "x * k['k']",
        "k.maps[1]['k'] = 3.0",
        "k.maps[1]['k']",
    ),
    "default of a missing entry": Script(
        "from collections import defaultdict\nk = defaultdict(float, k=2.0)",
        "x * k['k']",
        "k['k'] = 3.0",
        "k['k']",
    ),
    "bytes that change": Script("k = bytearray(b'\\x02')", "x * k[0]", "k[0] = 3", "k"),
    "array of the array module": Script(
        "import array\nk = array.array('d', [2.0])", "x * k[0]", "k[0] = 3.0", "k"
    ),
    "element of an array in a list": Script(
        "ks = [np.ones(2)]", "x * float(ks[0].max())", "ks[0][0] = 3.0", "ks[0]"
    ),
    "element of an array in an attribute": Script(
        "class Box: pass\nbox = Box()\nbox.k = np.ones(2)",
        "x * float(box.k[0])",
        "box.k[0] = 3.0",
        "box.k",
    ),
    "array handed to a helper": Script(
        "k = np.ones(2)\ndef g(x, k): return x * float(k[0])", "g(x, k)", "k[0] = 3.0", "k"
    ),
    "thread's own state": Script(
        "import threading\nlocal = threading.local()\nlocal.k = 2.0",
        "x * local.k",
        "local.k = 3.0",
        "local.k",
    ),
    "descriptor of the user": Script(
        "class D:\n def __init__(self): self.k = 2.0\n def __get__(self, o, t=None): return self.k\n"
        "d = D()\nclass A:\n k = d\na = A()",
        "x * a.k",
        "d.k = 3.0",
        "k",
    ),
    "attributes looked up in a way of their own": Script(
        "class A:\n def __init__(self): self.k = 2.0\n"
        " def __getattribute__(self, n): return object.__getattribute__(self, n)\na = A()",
        "x * a.k",
        "a.k = 3.0",
        "a.k",
    ),
    "list of functions": Script(
        "gs = [lambda x: x, lambda x: x * 2]", "gs[1](x)", "gs[1] = lambda x: x * 3", "gs[1]"
    ),
    "functions that a loop made": Script(
        "ks = {'a': 2.0}\ngs = [lambda x, n=n: x * ks[n] for n in ks]",
        "gs[0](x)",
        "ks['a'] = 3.0",
        "ks['a']",
    ),
    "operator of an object": Script(
        "class K:\n def __init__(self): self.k = 2.0\n def __float__(self): return self.k\nk = K()",
        "x * float(k)",
        "k.k = 3.0",
        "k.k",
    ),
    "iteration over an object": Script(
        "class K:\n def __init__(self): self.ks = [2.0]\n def __iter__(self): return iter(self.ks)\nk = K()",
        "x * sum(k)",
        "k.ks.append(3.0)",
        "len(k.ks)",
    ),
    "object of another class": Script(
        "class A:\n def __call__(self, x): return x\nclass B(A):\n def __call__(self, x): return x * 2\na = A()",
        "a(x)",
        "a.__class__ = B",
        "A object.__class__",
    ),
    "comparison of dataclasses": Script(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n k: int = 1\na, b = C(), C()",
        "x * 2 if a == b else x",
        "b.k = 2",
        "b.k",
    ),
}
