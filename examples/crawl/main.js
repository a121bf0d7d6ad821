// A crawl of a small local site: fetch → extract → chunk → embed → store. Some pages are busy at first, the model is once,
// and one page is broken: it becomes a dead letter, and is replayed when it has been mended.
// Run it: node examples/crawl/main.js
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openUmbra } from "umbra"
import { chunk, extract, withVectors } from "./adapters.js"
import { startModel } from "./model.js"
import { crawl } from "./pipeline.js"
import { startSite } from "./site.js"

const folder = mkdtempSync(join(tmpdir(), "umbra-crawl-"))
const [site, model] = await Promise.all([startSite(), startModel()])
const umbra = await openUmbra("memory:", {
  adapters: [extract, chunk, withVectors],
  // Both are the operator's to allow: files, and addresses that are not public.
  files: { allowFiles: [folder] },
  worker: { allowPrivateAddresses: ["127.0.0.1"] },
})

const stored = () => {
  const lines = readFileSync(join(folder, "vectors.jsonl"), "utf8").trimEnd().split("\n")
  return lines.map(line => JSON.parse(line))
}
const pagesIn = rows => new Set(rows.map(({ url }) => new URL(url).pathname)).size

try {
  const job = await umbra.submit(crawl, { url: `${site.url}/`, model: model.url })
  const { status, output } = await job.wait()
  console.log(status)
  for (const [route, { done, failed_tries, dead_lettered }] of Object.entries(output.routes))
    console.log(`${route}: ${done} done, ${failed_tries} failed tries, ${dead_lettered} dead`)
  const rows = stored()
  console.log(
    `stored ${rows.length} chunks of ${pagesIn(rows)} pages, each with ${rows[0].vector.length} numbers`,
  )
  console.log(
    `/prices was asked for ${site.visits.get("/prices")} times, / once: ${site.visits.get("/") === 1}`,
  )

  const { dead_letters } = await umbra.pipelines.deadLetters(job.id)
  for (const { id, attempts, error, body } of dead_letters)
    console.log(`dead: ${id.split(":")[0]} ${new URL(body.url).pathname}, ${attempts} tries, ${error.code}`)

  site.mend()
  const { jobId, replayed } = await umbra.pipelines.replay(job.id)
  const again = await umbra.wait(jobId)
  const all = stored()
  console.log(
    `replayed ${replayed}: ${again.status}, now ${all.length} chunks of ${pagesIn(all)} of ${site.pages.length} pages`,
  )

  const [nearest] = nearestTo(stored(), "goats")
  console.log(`nearest to "goats": ${nearest.text}`)
} finally {
  await umbra.close()
  await Promise.all([site.close(), model.close()])
  rmSync(folder, { recursive: true })
}

/** By the letters they share, which is all that this model knows. */
function nearestTo(rows, word) {
  const letters = [...word].map(letter => letter.charCodeAt(0) - 97)
  const score = ({ vector }) => letters.reduce((sum, letter) => sum + vector[letter], 0)
  return rows.toSorted((a, b) => score(b) - score(a))
}
