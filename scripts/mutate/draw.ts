/** Draws mutations by a seed: places first, so that a place with many possible mistakes is not drawn more often. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type Random, randomFrom } from "../../test/crash/random.ts"
import { type Mutation, type Site, sitesOf } from "./mutations.ts"

export interface DrawOptions {
  readonly rooms: readonly string[]
  readonly only?: string | undefined
  readonly seed: number
  readonly count: number
}

export function draw(folder: string, { rooms, only, seed, count }: DrawOptions): readonly Mutation[] {
  const files = rooms
    .flatMap(room => sourcesOf(folder, room))
    .filter(file => only === undefined || file === only)
  if (files.length === 0) throw new Error(`--only ${only}: there is no such file in ${rooms.join(", ")}`)
  const random = randomFrom(seed)
  return shuffled(
    files.flatMap(file => sitesOf(file, readFileSync(join(folder, file), "utf8"))),
    random,
  )
    .slice(0, count)
    .map(({ replacements, ...site }) => ({
      ...site,
      replacement: random.pick(replacements),
    }))
}

function sourcesOf(folder: string, room: string): readonly string[] {
  const paths = readdirSync(join(folder, "src", room), { recursive: true, encoding: "utf8" })
  return paths
    .filter(path => path.endsWith(".ts"))
    .map(path => `src/${room}/${path}`)
    .sort()
}

function shuffled(sites: readonly Site[], random: Random): readonly Site[] {
  return sites
    .map(site => ({ site, key: random.next() }))
    .sort((a, b) => a.key - b.key)
    .map(({ site }) => site)
}
