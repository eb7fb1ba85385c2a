"""Public names imported when first used; errors that say which extra to install."""

import ast
import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from packaging.requirements import Requirement

import coterie
from coterie.errors import MissingExtraError
from coterie.runtime.imports import (
    import_pandas,
    install_command,
    lazy_names,
    missing_packages,
    require_extra,
)

SOURCE = """
from typing import TYPE_CHECKING
from coterie.errors import MissingExtraError
from coterie.runtime.imports import lazy_names
if TYPE_CHECKING:
    from lazy_package.inner import answer as answer
    from lazy_package.absent import nothing as nothing
    from lazy_package.inner import hidden
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one lazy name that works and one whose module is missing."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "inner.py").write_text("answer = 42")
    (folder / "needs_another.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lazy_package")
    for name in [name for name in sys.modules if name.startswith("lazy_package")]:
        del sys.modules[name]


def test_a_name_is_imported_when_first_used(package):
    """Importing the package imports no module; afterwards the name is a plain attribute."""
    assert "lazy_package.inner" not in sys.modules
    assert "answer" not in vars(package)
    assert package.answer == 42
    assert vars(package)["answer"] == 42


def test_the_names_are_read_from_the_source(package):
    """``__all__`` has the exports in the order of the source; ``dir`` lists names not used yet."""
    assert package.__all__ == ["answer", "nothing"]
    assert {"answer", "nothing", "__all__"} <= set(dir(package))
    assert not {"TYPE_CHECKING", "lazy_names"} & set(dir(package))
    assert lazy_names("lazy_package")[2] == package.__all__


def test_a_module_is_an_attribute_and_an_unknown_name_is_an_attribute_error(package):
    """As in a package that imports its modules."""
    assert package.inner.answer == 42
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'unknown'"):
        _ = package.unknown
    assert not hasattr(package, "__wrapped__")


def test_a_missing_dependency_is_not_a_missing_name(package):
    """The error names the package that cannot be imported."""
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        _ = package.needs_another
    with pytest.raises(ModuleNotFoundError, match="absent"):
        _ = package.nothing


def test_a_missing_dependency_of_a_name_names_the_extra(package):
    """The error says which package is missing, and how to install it."""
    (Path(package.__file__).parent / "absent.py").write_text("import not_installed_anywhere.deep")
    get_attribute, _, _ = lazy_names("lazy_package", extra="ads")
    with pytest.raises(
        MissingExtraError, match=r"lazy_package.nothing needs not_installed_any.*ads"
    ):
        get_attribute("nothing")


SOURCES = Path(coterie.__file__).parent
SETTINGS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
#: Distributions whose modules have other names.
DISTRIBUTIONS = {"ibis": "ibis-framework", "prometheus_client": "prometheus-client"}


def calls(names):
    """Return the calls of these functions in the package, with the literal texts they get."""
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
                texts = [a.value if isinstance(a, ast.Constant) else None for a in node.args]
                yield file.relative_to(SOURCES).as_posix(), node, texts


def installed_by(extra):
    """Return the distributions that an extra adds, also by other extras of coterie."""
    found = set()
    for requirement in map(Requirement, SETTINGS["project"]["optional-dependencies"][extra]):
        for other in requirement.extras if requirement.name == "coterie" else ():
            found |= installed_by(other)
        found.add(requirement.name.lower())
    return found


def test_extras_install_the_packages_that_are_looked_for():
    """Each extra in the code exists; a package without an extra is in the extra of all."""
    checked = {
        (texts[0] or "all", DISTRIBUTIONS.get(module, re.sub("[._]", "-", module)), where)
        for where, _, texts in calls({"require_extra"})
        for module in texts[2:]
        if None not in texts
    }
    assert {"plots", "tables", "ads", "client", "spark", "all"} <= {extra for extra, *_ in checked}
    # calls with packages that are not literal texts
    checked |= {("partitioners", one, "") for one in ("pymetis", "mtkahypar")}
    checked |= {("gpu", one, "") for one in ("torch", "triton")}
    assert [one for one in checked if one[1] not in installed_by(one[0])] == []


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.module", "numpy.nothing"])
def test_a_missing_package_is_an_error(module):
    assert missing_packages(["numpy", module]) == [module]
    with pytest.raises(ImportError, match=rf"plots need {module}, which is not .*\[plots\]'; or"):
        require_extra("plots", "plots need", "numpy", module, instead="or do without")
    require_extra("plots", "plots need", "numpy")


def test_pandas_is_imported_if_it_is_there(monkeypatch):
    """Otherwise the message says what works without it."""
    assert import_pandas() is pd
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install pandas; or use the attributes"):
        import_pandas()


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'coterie[ads]'"),
        ({"url": "file:///no/such/folder", "dir_info": {}}, "pip install 'coterie[ads]'"),
        ({"url": "{folder}", "dir_info": {}}, "pip install '{path}[ads]'"),
        ({"url": "{folder}", "dir_info": {"editable": True}}, "pip install -e '{path}[ads]'"),
        ({"url": "{wheel}", "archive_info": {}}, "pip install '{path}/c.whl[ads]'"),
        (
            {"url": "https://host/c.git", "vcs_info": {"vcs": "git"}},
            "pip install 'coterie[ads] @ git+https://host/c.git'",
        ),
    ],
)
def test_the_command_repeats_the_source_of_the_installation(tmp_path, monkeypatch, record, command):
    """A clone, a file and a repository are named, if they still exist."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "c.whl").touch()
    text = json.dumps(record).replace("{folder}", folder.as_uri())
    text = text.replace("{wheel}", (folder / "c.whl").as_uri())

    class Distribution:
        def read_text(self, _):
            return None if record is None else text

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Distribution())
    assert install_command("ads") == command.replace("{path}", str(folder))


WITHOUT = """
import sys
class Missing:
    def find_spec(name, *_):
        if name in ("pyarrow", "ibis", "pandas", "polars", "matplotlib", "msgspec", "starlette"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing)
"""


def run_without_extras(code, text=""):
    """Return the finished process of an interpreter without optional packages."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_library_works_without_extras():
    """Arrays and lists of any kind of label, features, choice of K and model files."""
    done = run_without_extras("""
import numpy as np, tempfile, coterie
P, truth = coterie.planted_partitions([20, 20], 6, 1, 0.1, random_state=0)
names = np.array(["red", "blue", ""])
large = P.astype(np.int64) + 2**40
for labels in (P, large, names[P], names[P].tolist(), P.astype(float)):
    est = coterie.RobustConsensus(2, random_state=0).fit(labels)
    assert coterie.clustering_accuracy(truth, est.labels_) == 1
est.summary()
coterie.choose_k(P)
coterie.save_model(est, tempfile.mkdtemp() + "/model.coterie")
X, y = coterie.load_dataset("iris")
coterie.ConsensusClusterer(3, ensemble="kmeans", random_state=0).fit(X).predict(X)
""")
    assert done.returncode == 0, done.stderr


def run_program_without_extras(folder, *commands):
    """Run the program with each of the commands in one such interpreter; return the process."""
    return run_without_extras(f"""
import os
from coterie.cli.program import app
os.chdir({str(folder)!r})
for command in {commands!r}:
    app(command.split(), standalone_mode=False)
""")


def test_the_program_works_without_extras(tmp_path):
    """Tables in all formats, a stream, a folder, ids, factors, the choice of K and a report."""
    rows = [f"{i:02},{i % 3},{'xyz'[i % 3]},{'' if i == 4 else i % 3},{i}.5" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["name,a,b,c,age", *rows]))
    (tmp_path / "x.csv").write_text("\n".join(f"{i % 3}.25,{i % 3 + i / 99}" for i in range(30)))
    (tmp_path / "folder").mkdir()
    labels = "--id name --columns a,b,c -k 3 -q"
    done = run_program_without_extras(
        tmp_path,
        f"consensus t.csv {labels} --factors age -o out.csv.gz --report t.html --save-model m",
        f"consensus t.csv {labels} -o folder/out.parquet",
        f"consensus t.csv {labels} -o out.npy",
        "consensus folder --id name --columns label -k 3 -q -o again.tsv",
        "consensus out.npy --id name --columns label -k 3 -q",
        "choose-k t.csv --id name --columns a,b,c -q",
        "cluster x.csv -k 3 --partitions 4 --ensemble kmeans -q -o clusters.csv",
        "methods",
        "ads segment --help",
    )
    assert done.returncode == 0, done.stderr
    names = [line.split("\t")[0] for line in (tmp_path / "again.tsv").read_text().splitlines()]
    assert names == ["name", *(f"{i:02}" for i in range(30))]
    assert "<html" in (tmp_path / "t.html").read_text()


def test_streams_work_without_extras(tmp_path):
    """The standard streams are tables, too."""
    command = "sys.argv[1:] = 'consensus - --id n -k 2 -o -'.split()\n"
    done = run_without_extras(
        command + "import coterie.__main__ as m; m.main()",
        "n,a,b\n" + "\n".join(f"{i},{i % 2},{i % 2}" for i in range(20)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "n,label,confidence"


def test_commands_name_their_extra_in_one_line():
    """There is no traceback."""
    command = ["ads", "forecast", "model", "--advertiser", "a", "--bid", "1"]
    done = run_without_extras(f"sys.argv[1:] = {command!r}\nimport coterie.__main__ as m; m.main()")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "[ads]'" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["consensus_table", "ads.AdForecaster"])
def test_names_that_need_an_extra_say_so(name):
    """The library raises the same error."""
    package, _, last = f"coterie.{name}".rpartition(".")
    done = run_without_extras(f"""
import {package} as package
from coterie.errors import MissingExtraError
try:
    package.{last}(None)
except MissingExtraError as error:
    print(error)
""")
    assert f"[{'ads' if 'ads' in name else 'tables'}]'" in done.stdout, done.stderr
