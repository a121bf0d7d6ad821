/** `umbra serve` as a process of its own, on a store of its own. */
import { onTestFinished } from "vitest"
import { type Running, startUmbra } from "../cli/umbra.ts"
import { type Store, stores } from "./stage.ts"

export interface Served {
  readonly process: Running
  readonly url: string
}

export async function serve(store: Store, ...more: string[]): Promise<Served> {
  // A port of its own choice: one that was found free may be another's by then.
  const process = startUmbra(["serve", "--port", "0", ...storeFlags(store), ...more])
  onTestFinished(async () => {
    process.kill("SIGKILL")
    await process.ended
  })
  const [, port] = await process.wrote(/listens on http:\/\/\S+:(\d+),/)
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
