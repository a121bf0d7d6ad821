import { mkdtempSync, rmSync } from "node:fs"
import type * as files from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { openStore } from "../../src/cli/target/store.ts"
import { networkFileSystem } from "../../src/journal/network-file-system.ts"
import { type LogLevel, logTo } from "../../src/log.ts"
import { openUmbra } from "../../src/umbra.ts"

const NFS = 0x6969
const EXT4 = 0xef53

const reported = vi.hoisted(() => ({ type: 0, asked: [] as string[] }))

vi.mock("node:fs/promises", async original => ({
  ...(await original<typeof files>()),
  statfs: async (path: string) => {
    reported.asked.push(path)
    return { type: reported.type }
  },
}))

describe("networkFileSystem", () => {
  it.each([
    [NFS, "NFS"],
    [0xff534d42, "SMB"],
    [0xfe534d42, "SMB"],
    [0x01021997, "9p"],
    [0x00c36400, "Ceph"],
  ])("names the network file system with number %i", (type, name) => {
    expect(networkFileSystem(type)).toBe(name)
  })

  it.each([
    ["ext4", EXT4],
    ["XFS", 0x58465342],
    ["Btrfs", 0x9123683e],
    ["overlay", 0x794c7630],
    ["tmpfs", 0x01021994],
    ["FUSE, which may be local", 0x65735546],
  ])("takes %s for local", (_, type) => {
    expect(networkFileSystem(type)).toBeNull()
  })
})

describe.runIf(process.platform === "linux")("a folder that is opened", () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "umbra-network-"))
    reported.asked = []
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  async function warningsOn(type: number) {
    reported.type = type
    const warnings: { level: LogLevel; fields: object; message: string | undefined }[] = []
    const log = logTo((level, fields, message) => {
      if (level === "warn") warnings.push({ level, fields, message })
    })
    const umbra = await openUmbra(join(folder, "data"), { log })
    await umbra.close()
    return warnings
  }

  it("is warned of on a network file system, with what to use instead, and opens", async () => {
    expect(await warningsOn(NFS)).toEqual([
      {
        level: "warn",
        fields: { folder: join(folder, "data"), file_system: "NFS" },
        message: expect.stringMatching(/network file system: .*Use a folder on a local disk, or PostgreSQL/),
      },
    ])
    expect(reported.asked).toEqual([join(folder, "data")])
  })

  it("is warned of by commands that open no engine", async () => {
    reported.type = NFS
    const write = vi.spyOn(process.stderr, "write").mockReturnValue(true)
    onTestFinished(() => write.mockRestore())
    const store = openStore(join(folder, "data"), {})
    await store.tokens.list()
    await store.close()
    expect(write.mock.calls.map(([text]) => text)).toEqual([
      expect.stringMatching(/warn: the folder is on a network file system/),
    ])
  })

  it("is not warned of on a local disk", async () => {
    expect(await warningsOn(EXT4)).toEqual([])
    expect(reported.asked).toEqual([join(folder, "data")])
  })
})
