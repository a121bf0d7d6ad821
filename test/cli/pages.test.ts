/** The pages on the command and on embedding name every option that there is. */
import { mkdirSync, readFileSync, symlinkSync } from "node:fs"
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
})

describe("docs/start/quickstart.md", () => {
  it("shows workflows and a handler that work as they stand", async () => {
    const page = read("docs/start/quickstart.md")
    const [steps, greeting] = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text]) => text!)
    const [handlers] = [...page.matchAll(/^```js\n(.*?)^```/gms)].map(([, text]) => text!)
    const folder = folderWith({
      // The pause is there for the reader.
      "steps.yaml": steps!.replace("seconds: 5", "seconds: 0.1"),
      "greeting.yaml": greeting!,
      "handlers.js": handlers!,
      "package.json": '{ "type": "module" }',
    })
    mkdirSync(join(folder.path, "node_modules"))
    symlinkSync(root, join(folder.path, "node_modules/umbra"))
    try {
      const start = { cwd: folder.path }
      const output = (text: string) => ({
        code: 0,
        stdout: expect.stringContaining(`\n${JSON.stringify(text)}\n`),
      })
      expect(await umbra(["run", "steps.yaml"], start)).toMatchObject(output("done once, finished"))
      const flags = ["--handlers", "./handlers.js", "--input", '{"name": "Ada"}']
      expect(await umbra(["run", "greeting.yaml", ...flags], start)).toMatchObject(output("Hello, Ada!"))
    } finally {
      folder.remove()
    }
  })
})
