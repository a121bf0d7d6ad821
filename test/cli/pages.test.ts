/** The pages on the command and on embedding name every option that there is. */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith, root } from "./umbra.ts"

const read = (path: string) => readFileSync(join(root, path), "utf8")

describe("docs/reference/cli.md", () => {
  const page = read("docs/reference/cli.md")

  /** Commands of a group are rows of its table: `| list …` or `| workflows list …`. */
  function isNamed(command: readonly string[]): boolean {
    const [group, name] = command
    if (name === undefined) return page.includes(["umbra", ...command].join(" "))
    return new RegExp(`^\\| \`(?:${group} )?${name}\\b|umbra ${group} ${name}\\b`, "m").test(page)
  }

  /** Of the command and of all below it: what the page does not mention. */
  async function missing(command: readonly string[]): Promise<string[]> {
    const { stdout } = await umbra([...command, "--help"])
    const options = [...stdout.matchAll(/^\s+(?:-\w, )?(--[\w-]+)/gm)].map(([, option]) => option!)
    const listed = /^Commands:\n((?: .*\n)+)/m.exec(stdout)?.[1] ?? ""
    const commands = [...listed.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name]) => name!)
    const below = await Promise.all(
      commands.filter(name => name !== "help").map(name => missing([...command, name])),
    )
    const named = ["umbra", ...command].join(" ")
    return [
      ...(isNamed(command) ? [] : [named]),
      ...options
        .filter(option => option !== "--help" && !page.includes(option))
        .map(option => `${named} ${option}`),
      ...below.flat(),
    ]
  }

  it("names every command and every option that --help shows", async () => {
    expect(await missing([])).toEqual([])
  })
})

describe("docs/reference/embedding.md", () => {
  const page = read("docs/reference/embedding.md")

  /** The fields of an exported interface. */
  function fieldsOf(file: string, name: string): string[] {
    const [, body] = new RegExp(`^export interface ${name}\\b[^{]*{\\n([^]*?)^}`, "m").exec(read(file))!
    return [...body!.matchAll(/^ {2}readonly (\w+)/gm)].map(([, field]) => field!)
  }

  it.each([
    ["src/umbra-options.ts", "UmbraOptions"],
    ["src/provider/services.ts", "ExternalServicesOptions"],
    ["src/jobs/submit.ts", "SubmitOptions"],
  ])("names every option of %s %s", (file, name) => {
    const fields = fieldsOf(file, name)
    expect(fields.length).toBeGreaterThan(2)
    expect(fields.filter(field => !page.includes(`\`${field}\``))).toEqual([])
  })
})

describe("docs/reference/embedding.md", () => {
  it("has no member of Umbra that the package does not export", () => {
    const page = read("docs/reference/embedding.md")
    const [, exported] = /^export type Umbra = (.*?)^}/ms.exec(read("src/index.ts"))!
    const members = [...exported!.matchAll(/"(\w+)"|readonly (\w+):/g)].map(([, a, b]) => a ?? b!)
    const named = [...page.matchAll(/\bumbra\.(\w+)(?=[.(])/g)].map(([, name]) => name!)
    expect(new Set(named).size).toBeGreaterThan(15)
    expect(named.filter(name => !members.includes(name))).toEqual([])
  })
})

describe("README.md", () => {
  it("begins with a workflow that runs as shown, without a key and without the internet", async () => {
    const [, hello] = /`hello\.yaml`.*?```yaml\n(.*?)```/s.exec(read("README.md"))!
    const folder = folderWith({ "hello.yaml": hello! })
    try {
      const run = await umbra(["run", "hello.yaml", "--input", '{"name": "Ada"}'], { cwd: folder.path })
      expect(run).toMatchObject({ stdout: expect.stringMatching(/\n"Hello, Ada!"\n$/), code: 0 })
    } finally {
      folder.remove()
    }
  })

  it("shows a pipeline that runs as shown", async () => {
    const page = read("README.md")
    const [, titles] = /```yaml\n(# titles\.yaml\n.*?)```/s.exec(page)!
    const [write] = /^printf .* > articles\.jsonl$/m.exec(page)!
    const folder = folderWith({ "titles.yaml": titles! })
    try {
      execFileSync("sh", ["-c", write], { cwd: folder.path })
      const input = ["--input", '{"path": "articles.jsonl"}']
      const run = await umbra(["run", "titles.yaml", ...input], {
        cwd: folder.path,
        env: { UMBRA_ALLOW_FILES: "." },
      })
      expect(run).toMatchObject({ code: 0 })
      expect(readFileSync(join(folder.path, "titles.jsonl"), "utf8").split("\n").sort()).toEqual([
        "",
        '{"title":"A first article"}',
        '{"title":"A second one"}',
      ])
    } finally {
      folder.remove()
    }
  })
})
