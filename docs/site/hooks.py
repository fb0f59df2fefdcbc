# SPDX-License-Identifier: Apache-2.0
"""What MkDocs does differently here: anchors as GitHub makes them, and links and a search that need
no server."""

import re
from pathlib import Path


def slug(text, separator):
    """The anchor of a heading, as on GitHub, where the pages are read too."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config):
    config["mdx_configs"]["toc"] = {"slugify": slug}
    return config


def on_post_page(output, page, config):
    # The theme links to the folder, of which a browser without a server shows what files it has.
    return re.sub(r'href="([./]+)"', lambda found: f'href="{found[1].rstrip("/").removesuffix("/.")}/index.html"', output)


def on_post_template(output_content, template_name, config):
    return on_post_page(output_content, None, config) if template_name == "search.html" else output_content


def on_post_build(config):
    search = Path(config["site_dir"]) / "search"
    documents = re.fullmatch(r'\{"config":.*?,"docs":(\[.*\])\}', (search / "search_index.json").read_text(), re.DOTALL)
    (search / "index.js").write_text(f"var memreelSearchIndex = {documents[1]};\n")
    (search / "main.js").write_text((Path(__file__).parent / "search.js").read_text())
    for unused in ("search_index.json", "worker.js"):
        (search / unused).unlink()
