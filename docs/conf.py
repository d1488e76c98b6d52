"""How Sphinx builds the docs: `make docs`, then open build/docs/index.html."""

from deepband import __version__

project = "deepband"
author = "the deepband authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["moving/*", "compare/*"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"deepband {version}"
html_show_copyright = False

default_role = "code"  # `names` in docstrings are code, as in Markdown
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True, "undoc-members": True}
