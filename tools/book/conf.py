"""How Sphinx renders the book: sphinx-build -W -b html tools/book target/book"""

project = "Floe"
author = "The Floe developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["requirements.txt"]
html_theme = "alabaster"
html_theme_options = {"description": "From a PyTorch model to a camera loop on a Jetson", "fixed_sidebar": True}
html_show_sourcelink = False
myst_heading_anchors = 3
