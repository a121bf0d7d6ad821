// A model that makes vectors of texts, on 127.0.0.1: the letters they have. It is too busy to answer its second call.
import { createServer } from "node:http"

export async function startModel() {
  let calls = 0
  const server = createServer(async (request, response) => {
    calls++
    if (calls === 2) return response.writeHead(429, { "retry-after": "0.05" }).end()
    const { input } = JSON.parse(Buffer.concat(await request.toArray()).toString())
    response.writeHead(200, { "content-type": "application/json" })
    response.end(JSON.stringify({ data: input.map(text => ({ embedding: vectorOf(text) })) }))
  })
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}/v1/embeddings`,
    get calls() {
      return calls
    },
    close: () => new Promise(resolve => server.close(resolve).closeAllConnections()),
  }
}

function vectorOf(text) {
  const counts = Array(26).fill(0)
  for (const letter of text.toLowerCase()) {
    const position = letter.charCodeAt(0) - 97
    if (position >= 0 && position < 26) counts[position]++
  }
  const length = Math.hypot(...counts) || 1
  return counts.map(count => Number((count / length).toFixed(4)))
}
