// A provider that paints: the fake provider of umbra/testing, and the server that has its pictures for a short time.
import { createServer } from "node:http"
import { startFakeProvider } from "umbra/testing"
import { encodePng } from "./png.js"

const SIZE = 256

/** Colours by place, each from 0 to 1. */
const motifs = {
  sunrise: (x, y) => [1 - y, (1 - y) * 0.6, Math.hypot(x - 0.5, y - 0.7) < 0.25 ? 1 : 0.2],
  dunes: (x, y) => (y > 0.5 + 0.2 * Math.sin(7 * x) ? [0.9, 0.7, 0.3] : [0.2, 0.3, 0.5]),
  waves: (x, y) => [0, 0.3, 0.5 + 0.5 * Math.sin(30 * y + 6 * x)],
}

export async function startPainter() {
  const shown = new Map()
  let downloads = 0
  const pictures = createServer((request, response) => {
    const picture = shown.get(request.url)
    // A picture is there once: who comes again finds nothing.
    shown.delete(request.url)
    if (picture === undefined) return response.writeHead(410).end("expired")
    downloads++
    return response.writeHead(200, { "content-type": "image/png" }).end(picture)
  })
  await new Promise(done => pictures.listen(0, "127.0.0.1", done))
  const paint = ({ motif }) => {
    const path = `/${motif}.png`
    shown.set(path, painted(motifs[motif]))
    const picture = `http://127.0.0.1:${pictures.address().port}${path}`
    return {
      steps: [
        { do: "wait", ms: 50 },
        { do: "complete", output: { motif, picture } },
      ],
    }
  }
  const provider = await startFakeProvider({ limit: 2, script: ({ request }) => paint(request) })
  return {
    definition: { ...provider.definition("painter"), concurrency: 2, poll_seconds: [0.1] },
    get downloads() {
      return downloads
    },
    async close() {
      await provider.close()
      await new Promise(done => pictures.close(done))
    },
  }
}

function painted(color) {
  const pixels = Buffer.alloc(3 * SIZE * SIZE)
  for (let y = 0; y < SIZE; y++)
    for (let x = 0; x < SIZE; x++)
      pixels.set(
        color(x / SIZE, y / SIZE).map(value => Math.round(255 * value)),
        3 * (y * SIZE + x),
      )
  return encodePng({ width: SIZE, height: SIZE, pixels })
}
