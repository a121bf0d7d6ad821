import { cpSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { loadedWith } from "../shape/built.ts"
import { umbra } from "./same-process.ts"
import { folderWith, root, startUmbra } from "./umbra.ts"

describe("the command line", () => {
  it("lists its commands", async () => {
    const { stdout, code } = await umbra(["--help"])
    expect(code).toBe(0)
    expect(stdout).toMatch(/validate .*check a workflow/)
    expect(stdout).toMatch(/graph .*print a workflow's graph/)
  })

  it("says its version", async () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }
    expect(await startUmbra(["--version"]).ended).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" })
  })

  it.each([
    [["validat", "x.yaml"], /unknown command 'validat'[\s\S]*Did you mean validate\?/],
    [["validate"], /missing required argument 'file'/],
    [["validate", "x.yaml", "--jsn"], /unknown option '--jsn'[\s\S]*Did you mean --json\?/],
    [["validate", "x.yaml", "y.yaml"], /too many arguments/],
    [["graph", "x.yaml", "--format", "png"], /'png' is invalid[\s\S]*mermaid, tree, dot, json/],
    [["run", "x.yaml", "--server", "http://x"], /unknown option '--server'[\s\S]*umbra push, submit --wait/],
    [["jobs", "list", "--after", "x"], /It must be a job's id/],
    [["jobs", "list", "--parent", "x"], /It must be a job's id/],
    [["run"], /missing required argument 'file'/],
    [["run", "x.yaml", "--data-dir", "a", "--database-url", "b"], /cannot be used with option/],
    [["run", "x.yaml", "--priority", "high"], /It must be a whole number/],
    [["run", "x.yaml", "--ttl", "soon"], /It must be a number of seconds/],
    [["run", "x.yaml", "--label", "red"], /It must be NAME=VALUE/],
    [["jobs"], /Usage: umbra jobs/],
    [["jobs", "lst"], /unknown command 'lst'[\s\S]*Did you mean list\?/],
    [["jobs", "list", "--status", "done"], /There is no status DONE\. Use one of PENDING/],
    [["jobs", "list", "--limit", "0"], /from 1 to 1000/],
    [["jobs", "graph", "x", "--format", "png"], /'png' is invalid[\s\S]*tree, mermaid, json/],
    [[], /Usage: umbra/],
  ])("refuses %j with a hint and exit 2", async (parameters, message) => {
    const { stdout, stderr, code } = await umbra(parameters)
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 })
    expect(stderr).toMatch(message)
  })

  it("needs no command's code to show its help, so that it starts fast", async () => {
    const folder = folderWith({})
    try {
      const { files, sources } = loadedWith("dist/cli/main.js")
      expect(sources).toEqual(
        [
          ...["main", "action", "exit", "program", "artifacts/program", "jobs/program"].map(
            name => `cli/${name}`,
          ),
          ...["input/options", "output/terminal", "pipelines/program", "schedules/program"].map(
            name => `cli/${name}`,
          ),
          ...["errors", "roles", "settings", "version", "core/states"],
        ]
          .map(name => `src/${name}.ts`)
          .sort(),
      )
      for (const file of ["package.json", ...files]) cpSync(join(root, file), join(folder.path, file))
      symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"))
      const { stdout, code } = await startUmbra(["--help"], { main: join(folder.path, "dist/cli/main.js") })
        .ended
      expect(code).toBe(0)
      expect(stdout).toContain("Usage: umbra")
    } finally {
      folder.remove()
    }
  })
})
