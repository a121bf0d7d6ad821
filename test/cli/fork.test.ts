/** `umbra fork JOB`: on a folder, its preview at several widths, and wrong options. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { previewText } from "../../src/cli/commands/fork.ts"
import { paintFor, width } from "../../src/cli/output/terminal.ts"
import type { ForkPreview } from "../../src/client/index.ts"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const plain = paintFor({}, { NO_COLOR: "1" })

const preview: ForkPreview = {
  job_id: "0198c0de-7a11-7012-9abc-0123456789ab",
  workflow: "invoices-of-every-supplier",
  workflow_version: null,
  definition: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  reused: [{ node: "fetch", reason: { code: "unchanged" }, because: "nothing it depends on has changed" }],
  will_run: [
    {
      node: "charge-the-card-of-the-customer-once",
      reason: { code: "dependency", nodes: ["price"] },
      because: "price does not keep the result of the origin",
      effects: "unsafe",
      duration_ms: { p50: 1200, p90: 65_000 },
    },
    {
      node: "resize",
      reason: { code: "items_not_completed" },
      because: "some of its items did not complete",
      items: { reused: 97, run: 3 },
      effects: "unknown",
      duration_ms: null,
      usage: { cost_usd: { mean: 0.003, p50: 0.0021, p90: 0.0035 } },
    },
  ],
  pinned: [{ node: "price", reason: { code: "pinned" }, because: "the request sets its output" }],
  new: [
    {
      node: "mail",
      reason: { code: "new" },
      because: "the origin has no such node",
      effects: "safe",
      duration_ms: null,
    },
  ],
  removed: ["fax"],
  expected: {
    duration_ms: null,
    usage: {
      tokens: { mean: 1234.5678, p50: 987.654, p90: 2345.678 },
      images: { mean: 2.25, p50: null, p90: null },
    },
    critical_path: ["charge-the-card-of-the-customer-once", "mail"],
    without_data: ["resize", "mail"],
  },
  effects: { safe: ["mail"], unsafe: ["charge-the-card-of-the-customer-once"], unknown: ["resize"] },
  unconfirmed: { unsafe: ["charge-the-card-of-the-customer-once"], unknown: ["resize"] },
}

describe("the preview of a fork", () => {
  it.each([40, 60, 100])("fits into %i columns, and leaves nothing out", columns => {
    const text = previewText(preview, plain, columns)
    for (const line of text.split("\n")) expect(width(line)).toBeLessThanOrEqual(columns)
    const joined = text.replace(/\s+/g, " ")
    for (const node of [...preview.reused, ...preview.will_run, ...preview.pinned, ...preview.new])
      expect(joined).toContain(node.because)
    expect(joined).toContain("97 items reused, 3 run")
    expect(joined).toContain("1.2 s to 1 min 5 s")
    expect(joined).toContain("usage tokens 988 to 2350, images 2.25 on average")
    expect(joined).toContain("no data; cost_usd 0.0021 to 0.0035")
    expect(joined).toContain("time no data")
    expect(joined).toContain("a changed definition")
    expect(text.replace(/\s+/g, "")).toContain(
      "--confirmcharge-the-card-of-the-customer-once--confirm-unknown",
    )
    expect(joined).toContain("Removed (1) fax")
  })
})

const flow = `
name: sums
nodes:
  - { id: first, handler: transform, config: { value: "{{ input.n }}" } }
  - { id: second, handler: transform, config: { value: "{{ first / input.by }}" } }
output: "{{ second }}"
`

describe("umbra fork", () => {
  const files = { "sums.yaml": flow, "changed.yaml": flow.replace("first / input.by", "first * 100") }
  let folder: ReturnType<typeof folderWith>
  let job: string
  const run = (...given: string[]) => umbra([...given, "--data-dir", "data"], { cwd: folder.path })

  beforeAll(async () => {
    folder = folderWith(files)
    const { stdout } = await run("run", "sums.yaml", "--input", '{"n": 6, "by": 0}', "--json")
    job = JSON.parse(stdout).job_id
  })
  afterAll(() => folder.remove())

  it("shows what it would do, forks, and shows the fork", async () => {
    const dry = await run("fork", job, "--dry-run")
    expect(dry.stdout).toMatch(/Reused \(1\)\n {2}first/)
    expect(dry.stdout).toMatch(/Will run \(1\)\n {2}second +it did not complete/)
    const json = await run("fork", job, "--input", '{"n": 6, "by": 2}', "--dry-run", "--json")
    expect(JSON.parse(json.stdout)).toMatchObject({ job_id: job, reused: [{ node: "first" }] })
    const made = await run("fork", job, "--input", '{"n": 6, "by": 2}', "--wait", "--json")
    expect(made.code, made.stderr).toBe(0)
    const { job_id, output } = JSON.parse(made.stdout)
    expect(output).toBe(3)
    const shown = await run("jobs", "show", job_id)
    expect(shown.stdout).toContain(`fork of   ${job}`)
    const list = await run("jobs", "list", "--forked-from", job, "--json")
    expect(JSON.parse(list.stdout).jobs).toMatchObject([{ job_id, forked_from: job }])
    const { stdout } = await run("replay", job_id)
    expect(stdout).toMatch(new RegExp(`^#1 \\S+ job ${job_id} of sums version 1 submitted\n`))
    expect(stdout).toMatch(/^#1 \S+ ✓ first completed$/m)
    expect(stdout).toMatch(/^#2 \S+ ✓ second completed in /m)
  })

  it("takes a definition, outputs and configs from its options", async () => {
    const made = await run("fork", job, "--definition", "changed.yaml", "--wait", "--json")
    expect(made.code, made.stderr).toBe(0)
    expect(JSON.parse(made.stdout).output).toBe(600)
    const list = await run("jobs", "list", "--limit", "1")
    expect(list.stdout).toContain("sums (changed)")
    const set = await run(
      "fork",
      job,
      "--output",
      "first=8",
      "--node-config",
      'second={"value": "{{ first }}!"}',
      "--wait",
      "--json",
    )
    expect(JSON.parse(set.stdout).output).toBe("8!")
  })

  it.each([
    [["--items", "first"], /--items must be NODE=INDEXES/],
    [["--output", "first"], /--output must be NODE=JSON/],
    [["--output", "first=x"], /is not JSON/],
    [["--output", "first=1", "--node-config", "first={}"], /not both/],
    [["--workflow", "sums@1", "--definition", "changed.yaml"], /not both/],
    [["--from", "nobody"], /has no node "nobody" \(given in "from"\)/],
    [["--definition", "nothing.yaml"], /nothing\.yaml does not exist/],
  ])("refuses %j", async (given, message) => {
    const { code, stderr } = await run("fork", job, ...given)
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})
