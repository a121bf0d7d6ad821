/** Pages with commands do what they say: guides, and pages for newcomers and operators. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, it, type TestContext } from "vitest"
import { freshDatabase, redisUrl } from "../support/services.ts"
import { runPage } from "./run-page.ts"

/** A service that answers with JSON, the first `refused` requests with 429. */
async function serve(
  { onTestFinished }: TestContext,
  answer: (body: string) => string,
  { refused = 0 } = {},
): Promise<string> {
  let requests = 0
  const server = createServer(async (request, response) => {
    let body = ""
    for await (const part of request.setEncoding("utf8")) body += part
    response.setHeader("content-type", "application/json")
    if (requests++ < refused) response.writeHead(429, { "retry-after": "0" }).end("{}")
    else response.end(answer(body))
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** OpenAI's protocol: one good review, all others bad. */
function completion(body: string): string {
  const content = JSON.stringify({ stars: body.includes("Great") ? 5 : 1 })
  const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }
  return JSON.stringify({ model: "m", choices: [{ message: { content }, finish_reason: "stop" }], usage })
}

// Together: the programs of a page wait for each other most of the time.
describe.concurrent("docs/guides", () => {
  it("llm-rate-limit.md", async context => {
    await runPage("docs/guides/llm-rate-limit.md", {
      replace: { "https://api.openai.com/v1": await serve(context, completion, { refused: 1 }) },
      env: { OPENAI_API_KEY: "key-of-a-test", UMBRA_ALLOW_PRIVATE_ADDRESSES: "127.0.0.1" },
    })
  })

  it("keep-what-a-provider-made.md", async ({ onTestFinished }) => {
    const images = createServer(({ method, url = "" }, response) => {
      const address = `http://127.0.0.1:${(images.address() as AddressInfo).port}`
      if (url.startsWith("/files/"))
        return response.setHeader("content-type", "text/plain").end("\x89PNG\r\n\x1a\n and so on", "latin1")
      const made = { id: "op", status: "done", url: `${address}/files/cat.png`, seed: 7 }
      return response
        .setHeader("content-type", "application/json")
        .end(
          JSON.stringify(method === "POST" && !url.includes("wait") ? { id: `op-${Math.random()}` } : made),
        )
    })
    await new Promise<void>(done => images.listen(0, "127.0.0.1", done))
    onTestFinished(() => void images.close())
    await runPage("docs/guides/keep-what-a-provider-made.md", {
      replace: { "https://images.example.com": `http://127.0.0.1:${(images.address() as AddressInfo).port}` },
      env: { UMBRA_ALLOW_PRIVATE_ADDRESSES: "127.0.0.1" },
    })
  })

  const plain = ["wait-for-a-person", "run-a-job-later", "idempotent-handlers", "test-a-workflow"]
  it.each([...plain, "from-bullmq", "from-temporal", "from-celery"])("%s.md", name =>
    runPage(`docs/guides/${name}.md`),
  )

  it("from-airflow.md", async context => {
    const sales = JSON.stringify([{ amount: "1" }, { amount: "2" }, { amount: "3" }])
    await runPage("docs/guides/from-airflow.md", {
      replace: { "https://shop.example.com/sales": await serve(context, () => sales) },
      env: { UMBRA_ALLOW_PRIVATE_ADDRESSES: "127.0.0.1" },
    })
  })

  it.for(["deploy", "upgrade"])("%s.md", async (name, { onTestFinished }) => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const replace = {
      "postgres://umbra@db.example.com/umbra": database.url,
      "redis://redis.example.com:6379": redisUrl(),
    }
    await runPage(`docs/guides/${name}.md`, { replace, env: { UMBRA_REDIS_PREFIX: database.name } })
  })
})

describe.concurrent("docs/operations", () => {
  it.each(["backup", "troubleshooting"])("%s.md", name => runPage(`docs/operations/${name}.md`))
})

describe.concurrent("docs/start and docs/concepts", () => {
  it("quickstart.md", async () => {
    // The folder has the package already.
    const [enter, init, install] = [
      "mkdir hello && cd hello",
      "npm init -y && npm pkg set type=module",
      "npm install umbra",
    ]
    await runPage("docs/start/quickstart.md", { replace: { [enter!]: "", [init!]: "", [install!]: "" } })
  })

  const start = ["first-workflow", "first-pipeline", "first-provider"].map(name => `start/${name}`)
  const names = ["shadow-graph", "attempts", "slots", "past", "why", "forks", "statistics"]
  const concepts = names.map(name => `concepts/${name}`)
  it.each([...start, ...concepts])("%s.md", name => runPage(`docs/${name}.md`))
})
