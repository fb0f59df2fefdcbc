// SPDX-License-Identifier: Apache-2.0
// Searches the site without a server: browsers let no page that was opened from a folder fetch the index, so it is a script.
(function () {
  const results = document.getElementById("mkdocs-search-results");
  if (!results) return;
  const base = typeof base_url === "undefined" ? "." : base_url;
  const query = (new URLSearchParams(location.search).get("q") || "").trim();
  const input = document.getElementById("mkdocs-search-query");
  if (input) input.value = query;

  function load(name, then) {
    const script = document.createElement("script");
    script.src = base + "/search/" + name;
    script.onload = then;
    document.head.appendChild(script);
  }

  function show(documents) {
    const pages = new Map(documents.map((document) => [document.location, document]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      documents.forEach((document) => this.add(document));
    });
    // Every word, with whatever follows it; the analyser's syntax has no meaning here.
    const found = index.query(function (wanted) {
      query.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean).forEach((word) => {
        wanted.term(word, { boost: 10 });
        wanted.term(word, { wildcard: lunr.Query.wildcard.TRAILING });
      });
    });
    results.textContent = "";
    if (!found.length) results.textContent = results.dataset.noResultsText;
    for (const { ref } of found.slice(0, 50)) {
      const page = pages.get(ref);
      const article = results.appendChild(document.createElement("article"));
      const link = article.appendChild(document.createElement("h3")).appendChild(document.createElement("a"));
      link.href = base + "/" + ref;
      link.textContent = page.title;
      article.appendChild(document.createElement("p")).textContent = page.text.slice(0, 200);
    }
  }

  if (query) load("lunr.js", () => load("index.js", () => show(memreelSearchIndex)));
  else results.textContent = "";
})();
