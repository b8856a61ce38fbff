// The ranking of search results: headings that begin with the words first, and pages of measurements last.
var Scorer = {
  score: (result) => {
    const [page, title, , , score, , kind] = result;
    const words = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    const heading = title.split(" > ").pop().toLowerCase();
    if (kind === "title" && heading.startsWith(words)) return score + 20;
    if (/^(CHANGELOG|CONTRIBUTING|docs\/(lab\/.*|benchmarks|accuracy|architecture))$/.test(page)) return score - 4;
    if (/^plugins\//.test(page)) return score - 2;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
