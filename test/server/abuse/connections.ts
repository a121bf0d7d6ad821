/** Recorded: what somebody may write to the bare connection. `HOST` and `TOKEN` are filled in. */
import { connect } from "node:net"

export interface RawAttack {
  readonly what: string
  readonly text: string
  /** Status lines that may come, in order; a second one where one is expected is a smuggled request. */
  readonly answers: readonly (readonly number[])[]
}

const auth = "Authorization: Bearer TOKEN\r\n"
const head = `Host: HOST\r\n${auth}`
const json = "Content-Type: application/json\r\n"
const body = '{"workflow":"nothing"}'
const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\n${head}${more}Connection: close\r\n\r\n`
const post = (more: string, sent: string, close = "Connection: close\r\n") =>
  `POST /jobs HTTP/1.1\r\n${head}${json}${more}${close}\r\n${sent}`

const refused = [[400]]
const page = [[200]]
const none = [[404]]

export const connections: readonly RawAttack[] = [
  { what: "no HTTP", text: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", answers: refused },
  { what: "only line ends", text: "\r\n\r\n\r\n\r\nX\r\n\r\n", answers: refused },
  { what: "a method that is none", text: `HACK / HTTP/1.1\r\n${head}\r\n`, answers: refused },
  { what: "CONNECT", text: "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n", answers: [] },
  { what: "another protocol's version", text: "GET / HTTP/9.9\r\nHost: HOST\r\n\r\n", answers: refused },
  { what: "HTTP/2 without asking", text: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", answers: refused },
  { what: "no host", text: "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", answers: refused },
  { what: "HTTP/1.0", text: `GET /health HTTP/1.0\r\n\r\n`, answers: page },
  {
    what: "HTTP/1.0 that wants to stay",
    text: "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /health HTTP/1.0\r\n\r\n",
    answers: [[200], [200]],
  },
  { what: "two hosts", text: get("/health", "Host: evil.example.com\r\n"), answers: [[200, 400]] },
  {
    what: "two tokens, the first is good",
    text: get("/jobs", "Authorization: Bearer umbra_evil\r\n"),
    answers: [[200, 400, 401]],
  },
  { what: "a path with a space", text: `GET /jobs /x HTTP/1.1\r\n${head}\r\n`, answers: refused },
  { what: "a whole address as path", text: get("http://evil.example.com/jobs"), answers: [[200, 400, 404]] },
  { what: "a star", text: `OPTIONS * HTTP/1.1\r\n${head}Connection: close\r\n\r\n`, answers: [[400, 404]] },
  { what: "dots", text: get("/workflows/../metrics"), answers: none },
  { what: "encoded dots", text: get("/workflows/%2e%2e/metrics"), answers: none },
  { what: "an encoded slash", text: get("/jobs%2f..%2fmetrics"), answers: none },
  { what: "a slash too many", text: get("//evil.example.com/"), answers: none },
  { what: "a backslash", text: get("/jobs\\..\\metrics"), answers: none },
  { what: "NUL in the path", text: get("/workflows/%00"), answers: [[400]] },
  { what: "a raw NUL", text: get("/workflows/\0"), answers: refused },
  { what: "bytes above 127 in the path", text: get("/workflows/\xff"), answers: [[400, 404]] },
  { what: "a percent sign alone", text: get("/workflows/%"), answers: refused },
  {
    what: "a name that is too long",
    text: get(`/workflows/${"a".repeat(3000)}`),
    answers: [[400, 404, 414]],
  },
  { what: "a path of 20 KB", text: get(`/workflows/${"a".repeat(20_000)}`), answers: [[431]] },
  { what: "a header of 20 KB", text: get("/health", `X-A: ${"a".repeat(20_000)}\r\n`), answers: [[431]] },
  { what: "thousands of headers", text: get("/health", "a: b\r\n".repeat(3000)), answers: [[200, 431]] },
  { what: "a header without a name", text: get("/health", ": x\r\n"), answers: refused },
  { what: "a space before the colon", text: get("/health", "Content-Length : 5\r\n"), answers: refused },
  { what: "a folded header", text: get("/health", "X-A: a\r\n b\r\n"), answers: refused },
  { what: "a lone line feed in a header", text: get("/health", "X-A: a\nX-B: b\r\n"), answers: [[200, 400]] },
  { what: "a lone carriage return", text: get("/health", "X-A: a\rX-B: b\r\n"), answers: refused },
  { what: "NUL in a header", text: get("/health", "X-A: \0\r\n"), answers: refused },
  {
    what: "two lengths that differ",
    text: post(`Content-Length: ${body.length}\r\nContent-Length: 0\r\n`, body),
    answers: refused,
  },
  {
    what: "two lengths that agree",
    text: post(`Content-Length: ${body.length}\r\nContent-Length: ${body.length}\r\n`, body),
    answers: refused,
  },
  {
    what: "a length and chunks",
    text: post(
      `Content-Length: 6\r\nTransfer-Encoding: chunked\r\n`,
      "0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n",
      "",
    ),
    answers: refused,
  },
  {
    what: "chunks and a length",
    text: post(`Transfer-Encoding: chunked\r\nContent-Length: 6\r\n`, "0\r\n\r\nG", ""),
    answers: refused,
  },
  { what: "chunks spelled otherwise", text: post("Transfer-Encoding: xchunked\r\n", body), answers: refused },
  {
    what: "chunks twice",
    text: post("Transfer-Encoding: chunked, chunked\r\n", `0\r\n\r\n`),
    answers: refused,
  },
  {
    what: "chunks that are not last",
    text: post("Transfer-Encoding: chunked, identity\r\n", `0\r\n\r\n`),
    answers: refused,
  },
  { what: "a negative length", text: post("Content-Length: -1\r\n", body), answers: refused },
  { what: "a signed length", text: post(`Content-Length: +${body.length}\r\n`, body), answers: refused },
  { what: "a length in hex", text: post("Content-Length: 0x10\r\n", body), answers: refused },
  {
    what: "a length beyond numbers",
    text: post(`Content-Length: ${"9".repeat(30)}\r\n`, body),
    answers: refused,
  },
  {
    what: "a length that promises too much",
    text: post("Content-Length: 99999999\r\n", body),
    answers: [[413]],
  },
  {
    what: "a length that promises too little",
    text: post("Content-Length: 5\r\n", body, ""),
    answers: [[400], [400]],
  },
  {
    what: "good chunks",
    text: post("Transfer-Encoding: chunked\r\n", `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`),
    answers: none,
  },
  {
    what: "a chunk that is longer than it says",
    text: post("Transfer-Encoding: chunked\r\n", `1\r\n${body}\r\n0\r\n\r\n`),
    answers: refused,
  },
  {
    what: "a chunk with a size that is none",
    text: post("Transfer-Encoding: chunked\r\n", `zz\r\n${body}\r\n0\r\n\r\n`),
    answers: refused,
  },
  {
    what: "a chunk beyond numbers",
    text: post("Transfer-Encoding: chunked\r\n", `${"f".repeat(20)}\r\n${body}\r\n0\r\n\r\n`),
    answers: refused,
  },
  {
    what: "a chunk with a long note",
    text: post("Transfer-Encoding: chunked\r\n", `1;${"a".repeat(20_000)}\r\n`),
    answers: [[400, 413, 431]],
  },
  {
    what: "chunks of 5 MB",
    text: post(
      "Transfer-Encoding: chunked\r\n",
      `${`10000\r\n${"x".repeat(0x10000)}\r\n`.repeat(80)}0\r\n\r\n`,
    ),
    answers: [[413]],
  },
  {
    what: "many at once",
    text: "GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n".repeat(50) + get("/health"),
    answers: Array(51).fill([200]),
  },
  {
    what: "one behind a refused one",
    text: `${post(`Content-Length: 1\r\n`, "x", "")}${get("/health")}`,
    answers: [[400], [200]],
  },
  {
    what: "an upgrade",
    text: get("/health", "Upgrade: websocket\r\n").replace("Connection: close", "Connection: upgrade"),
    answers: [[200, 400, 426]],
  },
  {
    what: "a body with GET",
    text: `GET /jobs HTTP/1.1\r\n${head}${json}Content-Length: 2\r\nConnection: close\r\n\r\n{}`,
    answers: [[200, 400]],
  },
  {
    what: "an expectation",
    text: post(`Content-Length: ${body.length}\r\nExpect: 100-continue\r\n`, body),
    answers: [[100, 404], [404]],
  },
  {
    what: "an expectation that is none",
    text: post(`Content-Length: ${body.length}\r\nExpect: mercy\r\n`, body),
    answers: [[417, 404]],
  },
  {
    what: "another method in a header",
    text: get("/jobs", "X-HTTP-Method-Override: DELETE\r\n"),
    answers: page,
  },
  {
    what: "another address in a header",
    text: get("/jobs", "X-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /metrics\r\n"),
    answers: page,
  },
]

const QUIET_MS = 250

/** Everything the server says until it hangs up, or is quiet. `firstMs`: how long its first byte may take. */
export function readReplies(port: number, sent: string | Buffer, firstMs = 2000): Promise<string> {
  return new Promise(resolve => {
    const socket = connect(port, "127.0.0.1")
    let text = ""
    const finish = () => {
      socket.destroy()
      resolve(text)
    }
    let quiet = setTimeout(finish, firstMs)
    socket.on("data", data => {
      text += data.toString("latin1")
      clearTimeout(quiet)
      quiet = setTimeout(finish, QUIET_MS)
    })
    socket.on("error", () => {})
    socket.on("close", () => {
      clearTimeout(quiet)
      finish()
    })
    socket.write(typeof sent === "string" ? Buffer.from(sent, "latin1") : sent)
  })
}
