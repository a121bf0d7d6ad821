import { spawn, spawnSync } from "node:child_process"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { hello, openStage, type Stage } from "../server/stage.ts"
import { folderWith, root, umbra } from "./umbra.ts"

const main = join(root, "dist/cli/main.js")

describe("completion", () => {
  let stage: Stage
  let jobId: string
  beforeAll(async () => {
    stage = await openStage()
    const job = await stage.umbra.submit(hello, { name: "x" })
    jobId = job.id
    await job.wait()
  })
  afterAll(() => stage?.close())

  /** What a real bash offers, for several command lines at once; ▮ is the cursor. */
  async function offers(...lines: string[]): Promise<string[][]> {
    const tries = lines.map(line => {
      const words = line.split(" ").map(word => `'${word.replace("▮", "")}'`)
      return `COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _umbra; echo "\${COMPREPLY[*]}"`
    })
    const script = `umbra() { ${process.execPath} ${main} "$@"; }\nsource <(umbra completion bash)\n${tries.join("\n")}`
    const bash = spawn("bash", ["-c", script], { env: { ...process.env, UMBRA_SERVER: stage.server.url } })
    const [stdout, stderr] = await Promise.all([text(bash.stdout), text(bash.stderr)])
    expect(stderr).toBe("")
    return stdout
      .split("\n")
      .slice(0, -1)
      .map(line => line.split(" ").filter(Boolean))
  }

  /** What the server knows is offered if it answers in time, which on a busy machine takes several tries. */
  const offered = (line: string) => expect.poll(async () => (await offers(line))[0])

  it("offers commands, options and their values in bash", async () => {
    const [commands, jo, options, status, format, file] = await offers(
      ...["umbra ▮", "umbra jo▮", "umbra jobs list --l▮", "umbra jobs list --status ca▮"],
      ...["umbra graph x --format ▮", "umbra run ▮"],
    )
    const [message, page, replay] = await offers(
      ...["umbra lineage x ▮", "umbra dead-letters x --after ▮", "umbra dead-letters x --re▮"],
    )
    expect([message, page, replay]).toEqual([[], [], ["--replay"]])
    await offered("umbra dead-letters ▮").toEqual([jobId])
    expect(commands).toEqual(expect.arrayContaining(["run", "serve", "push", "watch", "alias", "completion"]))
    expect(commands).not.toContain("complete")
    expect(jo).toEqual(["jobs"])
    expect(options).toEqual(["--label", "--limit"])
    expect(status).toEqual(["cancelled"])
    expect(format).toEqual(["mermaid", "tree", "dot", "json"])
    expect(file).toEqual([])
  })

  it("continues after a comma, with what is not there yet", async () => {
    const [statuses, scopes, roles] = await offers(
      ...[
        "umbra jobs list --status failed,c▮",
        "umbra token create --scope read,▮",
        "umbra serve --roles a▮",
      ],
    )
    expect(statuses).toEqual(["failed,completed", "failed,cancelled"])
    expect(scopes).toEqual(["read,submit", "read,manage", "read,admin"])
    expect(roles).toEqual(["api"])
  })

  it("offers job ids and workflow names that the server knows, by variable or by address", async () => {
    const { host, port } = new URL(stage.server.url)
    // As bash itself breaks the address into words.
    const address = `http : //${host.replace(`:${port}`, "")} : ${port}`
    await offered("umbra jobs show ▮").toEqual([jobId])
    await offered("umbra submit hel▮").toEqual(["hello"])
    await offered("umbra alias list ▮").toEqual(["hello"])
    expect(await offers("umbra alias set hello ▮")).toEqual([[]])
    await offered(`umbra watch --server ${address} ▮`).toEqual([jobId])
  })

  it("completes nothing, and ends soon, when no target can be queried", async () => {
    const ended = await umbra(["complete", "--", "jobs", "show", ""], {
      env: { UMBRA_SERVER: "http://127.0.0.1:9" },
    })
    expect(ended).toEqual({ code: 0, stdout: "", stderr: "" })
  })

  it.each(["bash", "zsh", "fish"])("prints a script for %s that says how to use it", async shell => {
    const { code, stdout } = await umbra(["completion", shell])
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`# Completion of umbra for ${shell}\\. .*umbra completion ${shell}`))
    // From a file: fish cannot read a script from the socket that is a child's input here.
    const folder = folderWith({ script: stdout })
    onTestFinished(folder.remove)
    const check = spawnSync(shell, ["-n", join(folder.path, "script")], { encoding: "utf8" })
    // Where the shell is there, it must be able to read it.
    if (check.error === undefined)
      expect({ code: check.status, stderr: check.stderr }).toEqual({ code: 0, stderr: "" })
  })
})
