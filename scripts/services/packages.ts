/**
 * Installs missing packages of the distribution: only as root on Debian and its derivatives. Elsewhere one
 * line tells what to install; nothing is skipped.
 */
import { rm, writeFile } from "node:fs/promises"
import { findChromium } from "./chromium.ts"
import { findExecutable } from "./executable.ts"
import { findPostgres } from "./postgres.ts"
import { findRedis } from "./redis.ts"
import { capture } from "./run.ts"
import { findStrace } from "./strace.ts"
import { findSwift } from "./swift.ts"

/** Debian's package scripts call it to learn whether a service may be started; 101 means "no". */
const POLICY = "/usr/sbin/policy-rc.d"

const needs = [
  { packageName: "postgresql", find: findPostgres },
  { packageName: "redis-server", find: findRedis },
  { packageName: "chromium-headless-shell", find: findChromium },
  { packageName: "strace", find: findStrace },
  { packageName: "python3-swift", find: findSwift },
]

export async function ensurePrograms(signal?: AbortSignal): Promise<void> {
  const missing = await missingPrograms()
  if (missing.length === 0) return
  if (!(await canInstall())) throw new Error(`please install ${sentence(missing)}`)
  const names = missing.map(need => need.packageName)
  console.log(`Installing ${names.join(", ")} from the distribution's packages, which can take minutes`)
  await install(names, signal)
  const still = await missingPrograms()
  if (still.length > 0)
    throw new Error(`apt-get did not install everything, please install ${sentence(still)}`)
}

interface Missing {
  readonly packageName: string
  readonly what: string
}

const sentence = (missing: readonly Missing[]): string => missing.map(need => need.what).join("; ")

async function missingPrograms(): Promise<readonly Missing[]> {
  const found = await Promise.all(needs.map(async need => ({ ...need, what: await need.find() })))
  return found.filter((need): need is (typeof needs)[number] & Missing => typeof need.what === "string")
}

const canInstall = async (): Promise<boolean> =>
  process.getuid?.() === 0 && (await findExecutable(["apt-get"])) !== null

async function install(names: readonly string[], signal?: AbortSignal): Promise<void> {
  const release = await forbidServiceStarts()
  try {
    await aptGet(["update"], signal)
    await aptGet(["install", "-y", "--no-install-recommends", ...names], signal)
  } finally {
    await release()
  }
}

async function aptGet(args: readonly string[], signal?: AbortSignal): Promise<void> {
  const options = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  try {
    await capture("apt-get", [...options, ...args], { env, signal })
  } catch (error) {
    signal?.throwIfAborted()
    throw new Error(`apt-get ${args.join(" ")} failed: ${(error as Error).message}`)
  }
}

/**
 * The packages of PostgreSQL and Redis start a system-wide server when they are installed. The tests start
 * private ones, so during the installation this policy forbids it. An existing policy (as in container
 * images) stays unchanged.
 */
async function forbidServiceStarts(): Promise<() => Promise<void>> {
  try {
    await writeFile(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755, flag: "wx" })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return async () => {}
    throw error
  }
  return () => rm(POLICY, { force: true })
}
