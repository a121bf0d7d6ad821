// Keep what a provider made: pictures are painted at a provider whose URLs expire, stored as artifacts, and made small in a
// thread. Then the provider is gone, and the pictures are still there.
// Run it: node examples/media/main.js
import { httpProvider, openUmbra } from "umbra"
import { startPainter } from "./painter.js"
import { decodePng } from "./png.js"
import { thumbnail } from "./thumbnail.js"
import { gallery } from "./workflow.js"

const painter = await startPainter()
const umbra = await openUmbra("memory:", {
  handlers: [thumbnail],
  // `store`: its URLs are downloaded as soon as a result is known.
  providers: [httpProvider({ ...painter.definition, store: true }, { allowPrivateAddresses: true })],
  providerSecrets: () => "only-for-this-example",
  worker: { allowPrivateAddresses: ["127.0.0.1"] },
})

const job = await umbra.submit(gallery, { motifs: ["sunrise", "dunes", "waves"] })
const { status, output } = await job.wait()
console.log(status)
await painter.close()

for (const { motif, picture, small } of output) {
  const content = await umbra.artifacts.get(small)
  console.log(
    `\n${motif}: ${picture.name} ${picture.type}, ${picture.bytes} bytes, made small: ${small.bytes} bytes`,
  )
  console.log(drawn(decodePng(await content.buffer())))
}

const { artifacts } = await umbra.artifacts.list({ jobId: job.id })
console.log(
  `\n${artifacts.length} artifacts belong to the job; the painter has answered ${painter.downloads} downloads`,
)
await umbra.close()

/** A picture as text: the brighter a pixel, the denser its character. */
function drawn({ width, height, pixels }) {
  const brightness = at => (pixels[at] + pixels[at + 1] + pixels[at + 2]) / 3
  const line = y =>
    Array.from({ length: width }, (_, x) => " .:-=+*#%@"[Math.floor(brightness(3 * (y * width + x)) / 25.6)])
  return Array.from({ length: height }, (_, y) => line(y).join("")).join("\n")
}
