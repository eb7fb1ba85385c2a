"""Sphinx configuration: ``python -m sphinx -W -b html docs docs/_build/html``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import coterie

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "coterie"
author = "The coterie developers"
copyright = "The coterie developers"
version = release = coterie.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "formula_docstrings",
    "method_pages",
    "example_links",
    "linked_names",
    "native_mathml",
]
templates_path = ["_templates"]
# generated tables are included by the pages of the benchmarks; pages of the gallery can be
# downloaded as notebooks, which are not pages of the documentation
exclude_patterns = ["_build", "_templates", "benchmarks/generated", "gallery/*.ipynb"]

# Markdown ------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Notebooks are stored with their output, which the tests compare with a new run -----------------
nb_execution_mode = "off"
nb_merge_streams = True

# Names of other packages: without a network their names are not links ---------------------------
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
}
intersphinx_timeout = 5
logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(
    lambda record: not str(record.msg).startswith("failed to reach any of the inventories")
)
intersphinx_disabled_reftypes = ["std:*"]  # labels and pages of this documentation only

# API -----------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Gallery -------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.QuestionOrder",
    # displays are shown as pictures, not as text
    "ignore_repr_types": r"matplotlib|coterie\.inspection\.displays",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 3600,
    "write_computation_times": False,
    "image_srcset": ["2x"],
}

# Copy buttons: prompts and output are left out -------------------------------------------------
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

# Links to other sites: python -m sphinx -b linkcheck docs docs/_build/links ---------------------
linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost|[\w.]*example\.com)([:/].*)?"]
linkcheck_timeout = 20
linkcheck_retries = 2
# pages that make their anchors with scripts
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]

# HTML ----------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "coterie"
html_static_path = ["_static"]
html_css_files = ["coterie.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
html_sidebars = {"index": [], "development/changelog": []}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
