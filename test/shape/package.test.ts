import { describe, expect, it } from "vitest"
import { listFiles, read } from "./files.ts"

const manifest = JSON.parse(read("package.json")) as {
  readonly version: string
  readonly scripts: Record<string, string>
}

interface LockEntry {
  readonly resolved?: string
  readonly link?: boolean
  readonly integrity?: string
  readonly optionalDependencies?: Record<string, string>
}

const readLock = (path: string) => JSON.parse(read(path)) as { readonly packages: Record<string, LockEntry> }

const lock = readLock("package-lock.json")

const installedBy = ({ packages }: typeof lock) =>
  Object.entries(packages).filter(([path, entry]) => path !== "" && !entry.link)

it("the version that processes show is that of the newest section of the changelog", () => {
  expect(/^## (\S+)/m.exec(read("CHANGELOG.md"))![1]).toBe(manifest.version)
})

describe("the lock file", () => {
  const installed = installedBy(lock)

  it.each(["", "bench/peers/"])(
    "of ./%s names no registry: packages come from whichever the reader has configured",
    folder => {
      const own = installedBy(readLock(`${folder}package-lock.json`))
      expect(own.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([])
      const settings = `${folder}.npmrc`
      expect(listFiles().includes(settings) && /^registry\s*=/m.test(read(settings))).toBe(false)
    },
  )

  it("has the packages of every platform, without which `npm ci` refuses to install on any", () => {
    const missing = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        name => !lock.packages[`node_modules/${name}`] && !lock.packages[`${path}/node_modules/${name}`],
      ),
    )
    expect(missing).toEqual([])
  })

  it("pins the content of every package", () => {
    const workspaces = installed.filter(([path]) => path.startsWith("node_modules/"))
    expect(workspaces.filter(([, { integrity }]) => !integrity).map(([path]) => path)).toEqual([])
  })
})

describe("README.md", () => {
  const commands = ["npm ci && npm run demo", "npm ci && npm test"]

  it.each(commands)("shows `%s`, and package.json has its script", command => {
    const script = command.replace(/^.*npm (run )?/, "")
    expect(read("README.md")).toContain(command)
    expect(Object.keys(manifest.scripts)).toContain(script)
  })
})
