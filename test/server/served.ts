/** `umbra serve` as a process of its own, on a store of its own. */
import { createServer } from "node:net"
import { onTestFinished } from "vitest"
import { type Running, startUmbra } from "../cli/umbra.ts"
import { type Store, stores } from "./stage.ts"

export interface Served {
  readonly process: Running
  readonly url: string
}

export async function serve(store: Store, ...more: string[]): Promise<Served> {
  const port = await freePort()
  const process = startUmbra(["serve", "--port", String(port), ...storeFlags(store), ...more])
  onTestFinished(() => process.kill("SIGKILL"))
  await process.wrote(/listens on/)
  return { process, url: `http://127.0.0.1:${port}` }
}

export function storeFlags({ location }: Store): string[] {
  return location.startsWith("postgres") ? ["--database-url", location] : ["--data-dir", location]
}

export async function storeOf(kind: string): Promise<Store> {
  const store = await stores[kind]!()
  onTestFinished(() => store.remove())
  return store
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1")
  await new Promise(done => server.once("listening", done))
  const { port } = server.address() as { port: number }
  await new Promise(done => server.close(done))
  return port
}
