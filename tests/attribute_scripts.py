"""Programs in which attributes appear, or are found by other ways than their names, for ``test_guards.py``."""

from __future__ import annotations

from state_scripts import MODEL, Script

SCRIPTS: dict[str, Script] = {
    "object of a method behind a partial": Script(
        MODEL + "import functools\ng = functools.partial(model.apply)",
        "g(x)",
        "model.scale = 5.0",
        "g.func.__self__.scale",
    ),
    "object behind a proxy": Script(
        MODEL + "import weakref\np = weakref.proxy(model)\nkept = model; del model",
        "x * p.scale",
        "kept.scale = 5.0",
        "p.scale",
    ),
    "object of a method that is compiled": Script(
        MODEL + "g = tapec.compile(model.apply)", "g(x)", "model.scale = 5.0", "scale"
    ),
    "object of a method behind a cache": Script(
        MODEL
        + "import functools\nmodel.get = functools.lru_cache(model.inner.__call__)\ng = model.get.__wrapped__",
        "g(x)",
        "model.inner.bias = 5.0",
        "bias",
    ),
    "class attribute that is None": Script(
        MODEL + "Model.mode = None", "x if model.mode is None else x * 2", "Model.mode = 1", "mode"
    ),
    "object that the function makes": Script(
        "class A:\n one = None\n @classmethod\n def get(cls):\n  if cls.one is None: cls.one = A(); cls.one.k = 2.0\n"
        "  return cls.one\nA.get()",
        "x * A.get().k",
        "A.one.k = 3.0",
        "one.k",
    ),
    "attribute that __getattr__ gave": Script(
        "class Loose:\n def __getattr__(self, n): return 2.0\nloose = Loose()",
        "x * loose.k",
        "loose.k = 3.0",
        "loose.k",
    ),
    "attribute that __getattr__ gave, of the class": Script(
        "class Loose:\n def __getattr__(self, n): return 2.0\nloose = Loose()",
        "x * loose.k",
        "Loose.k = 3.0",
        "Loose.k",
    ),
    "attribute whose lack is handled": Script(
        MODEL + "def g(x):\n try: return x * model.fast\n except AttributeError: return x",
        "g(x)",
        "model.fast = 3.0",
        "model.fast",
    ),
    "attribute whose lack is handled, of the class": Script(
        MODEL + "def g(x):\n try: return x * Model.fast\n except: return x",
        "g(x)",
        "Model.fast = 3.0",
        "Model.fast",
    ),
    "attribute of a function whose lack is handled": Script(
        "def h(x): return x\nERRORS = (AttributeError,)\ndef g(x):\n try: return x * h.k\n except ERRORS: return x",
        "g(x)",
        "h.k = 3.0",
        "h.k",
    ),
    "slot that was empty": Script(
        "class Point:\n __slots__ = ('k',)\npoint = Point()",
        "x * getattr(point, 'k', 1.0)",
        "point.k = 3.0",
        "point.k",
    ),
    "slot that __getattr__ gave": Script(
        "class Point:\n __slots__ = ('held', 'k')\n def __getattr__(self, n): return self.held[n]\n"
        "point = Point(); point.held = {'k': 2.0}",
        "x * point.k",
        "point.k = 3.0",
        "point.k",
    ),
    "attribute of a module that appears": Script(
        "import types\nsettings = types.ModuleType('settings')\nsettings.__file__ = '/x/settings.py'",
        "x * getattr(settings, 'k', 2.0)",
        "settings.k = 3.0",
        "settings.k",
    ),
    "attribute that a module computes": Script(
        "import types\nsettings = types.ModuleType('settings')\nsettings.__file__ = '/x/settings.py'\n"
        "settings.__getattr__ = lambda name: 2.0",
        "x * settings.k",
        "settings.k = 3.0",
        "settings.k",
    ),
    "one more attribute": Script(MODEL, "x * len(vars(model))", "model.fast = 4.0", "model.fast"),
    "attributes by their fields": Script(
        "import dataclasses\n@dataclasses.dataclass\nclass Config:\n rate: float = 2.0\nconfig = Config()",
        "x * sum(getattr(config, f.name) for f in dataclasses.fields(config))",
        "config.rate = 3.0",
        "config.rate",
    ),
    "attributes by dir": Script(
        "class A: pass\na = A(); a.k = 1.0",
        "x * sum(getattr(a, n) for n in dir(a) if n[0] != '_')",
        "A.other = 3.0",
        "A.other",
    ),
    "attributes by a text that is split": Script(
        "class A: pass\na = A(); a.k, a.n = 1.0, 2.0",
        "x * sum(getattr(a, n) for n in 'k n'.split())",
        "a.n = 3.0",
        "a.n",
    ),
    "attributes by a text of the caller": Script(
        "class A: pass\na = A(); a.k = 1.0\ndef get(name): return getattr(a, name)",
        "x * get('k')",
        "a.k = 3.0",
        "a.k",
    ),
    "attributes by a text that is made": Script(
        "class A: pass\na = A(); a.k1 = 1.0",
        "x * sum(getattr(a, 'k' + str(i)) for i in (1,))",
        "a.k1 = 3.0",
        "a.k1",
    ),
    "dict of a class": Script(MODEL, "x * vars(Model)['rate']", "Model.rate = 3.0", "Model.rate"),
    "equal namespaces": Script(
        "from types import SimpleNamespace as N\na, b = N(k=1.0), N(k=1.0)",
        "x * 2 if a == b else x",
        "b.n = 3.0",
        "b.n",
    ),
    "name of a class": Script(
        MODEL,
        "x * len(type(model).__name__)",
        "Model.__name__ = 'Other name'",
        "Model.__name__",
    ),
    "class of an object": Script(
        MODEL + "class Other(Model): pass",
        "x * 2 if isinstance(model, Other) else x",
        "model.__class__ = Other",
        "model.__class__",
    ),
    "annotation": Script(
        "def g(x: 1.0): return x",
        "x * len(g.__annotations__)",
        "g.__annotations__['y'] = 3.0",
        "g.__annotations__['y']",
    ),
    "signature": Script(
        "import inspect\ndef g(x, k=2.0): return x",
        "x * inspect.signature(g).parameters['k'].default",
        "g.__defaults__ = (3.0,)",
        "g.__defaults__",
    ),
    "builtin of the user": Script(
        "import builtins\nbuiltins.state_script = 2.0",
        "x * state_script",
        "builtins.state_script = 3.0",
        "state_script",
    ),
    "object in an array": Script(
        MODEL + "models = np.array([model], dtype=object)",
        "x * models[0].scale",
        "model.scale = 5.0",
        "models.scale",
    ),
}
