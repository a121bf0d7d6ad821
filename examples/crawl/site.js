// A small web site on 127.0.0.1. Its pages link to each other in circles; two are busy at first, one is broken until it
// is mended.
import { createServer } from "node:http"

const pages = {
  "/": [
    "Harbour",
    "The harbour opens at six. Boats leave for the islands every hour.",
    ["/boats", "/islands", "/news"],
  ],
  "/boats": [
    "Boats",
    "Four boats: Ada, Grace, Edsger and Barbara. Ada is the oldest and the fastest.",
    ["/", "/ada", "/prices"],
  ],
  "/ada": [
    "Ada",
    "Built in 1962, Ada carries ninety people. She was painted blue last winter.",
    ["/boats", "/broken"],
  ],
  "/islands": [
    "Islands",
    "Three islands: one with a lighthouse, one with goats, one with nothing at all.",
    ["/", "/goats", "/light"],
  ],
  "/goats": ["Goats", "The goats eat everything. Keep your tickets in your pocket.", ["/islands"]],
  "/light": [
    "Lighthouse",
    "Two hundred and eleven steps. The view is worth every one of them.",
    ["/islands", "/prices"],
  ],
  "/prices": ["Prices", "A ticket is four crowns, goats travel for free.", ["/"]],
  "/news": ["News", "The ferry to the goats is late. The goats do not mind.", ["/", "/goats"]],
  "/broken": ["Timetable", "Six, seven, eight, and so on until the moon is up.", []],
}

const busyAt = { "/news": 1, "/prices": 2 }

export async function startSite() {
  const visits = new Map()
  let isMended = false
  const server = createServer((request, response) => {
    const path = request.url
    const visit = (visits.get(path) ?? 0) + 1
    visits.set(path, visit)
    if (visit <= (busyAt[path] ?? 0)) return response.writeHead(503, { "retry-after": "0.05" }).end()
    if (path === "/broken" && !isMended) return response.writeHead(500).end("out of order")
    if (!(path in pages)) return response.writeHead(404).end()
    const [title, text, links] = pages[path]
    const anchors = links.map(link => `<a href="${link}">${pages[link][0]}</a>`)
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" })
    response.end(`<title>${title}</title><main>${text}</main><nav>${anchors.join(" ")}</nav>`)
  })
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    pages: Object.keys(pages),
    visits,
    mend: () => {
      isMended = true
    },
    close: () => new Promise(resolve => server.close(resolve).closeAllConnections()),
  }
}
