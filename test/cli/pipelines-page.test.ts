/** The first example of docs/reference/pipelines.md, as a reader copies it: the document, the adapter, the command. */
import { mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith, root } from "./umbra.ts"

const page = readFileSync(join(root, "docs/reference/pipelines.md"), "utf8")
const sample = (language: string) => new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "ms").exec(page)![1]!

/** Pages that link to each other in a circle, and to a page of another site. */
async function site(pages: number): Promise<string> {
  const server = createServer((request, response) => {
    const n = Number(request.url!.slice(1))
    const links = [n + 1, n * 2 + 1].map(to => `<a href="/${to % pages}">more</a>`)
    response.setHeader("content-type", "text/html")
    response.end(`<p>page ${n}</p>${links.join("")}<a href="http://elsewhere.invalid/">out</a>`)
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/0`
}

it("docs/reference/pipelines.md begins with a pipeline that does what it says: every page is fetched and written once", async () => {
  const folder = folderWith({ "crawl.yaml": sample("yaml"), "extract.ts": sample("ts") })
  onTestFinished(folder.remove)
  mkdirSync(join(folder.path, "node_modules"))
  symlinkSync(root, join(folder.path, "node_modules/umbra"))
  const url = await site(25)
  const [, command] = /^```sh\nUMBRA_ALLOW_FILES=\. npx umbra (run .*) --input/m.exec(page)!
  const { stdout, stderr, code } = await umbra(
    [...command!.split(" "), "--input", JSON.stringify({ url }), "--allow-private-addresses"],
    { cwd: folder.path, env: { UMBRA_ALLOW_FILES: "." } },
  )
  expect([stderr, code], stdout).toEqual(["Creating a database in ./.umbra.\n", 0])
  const lines = readFileSync(join(folder.path, "chunks.jsonl"), "utf8").trim().split("\n")
  const texts = lines.map(line => /page \d+/.exec((JSON.parse(line) as { text: string }).text)![0])
  expect(texts.sort()).toEqual(Array.from({ length: 25 }, (_, n) => `page ${n}`).sort())
})
