/** Which place a command means: by flag, by variable, or the folder in the current directory and the server that has it. */
import { UmbraClientError } from "../../client/error.ts"
import { UmbraError } from "../../errors.ts"
import { isPostgres } from "../../journal/location.ts"
import { readText } from "../input/source.ts"
import { existingStore, storeFlags, storeLocation } from "../input/store.ts"
import { paintFor } from "../output/terminal.ts"
import { advised } from "./advice.ts"
import { inTurn } from "./folder-wait.ts"
import { findServer } from "./served.ts"
import { openServer, type ServerAddress } from "./server.ts"
import type { PlaceOptions, Target } from "./target.ts"

export interface Wanted {
  /** A folder that has no database yet is made. */
  readonly make?: boolean
}

/** Opens the place, closes it, and says in the words of the command line what the client says in those of HTTP. */
export async function withPlace<T>(
  options: PlaceOptions,
  use: (place: Target) => Promise<T>,
  wanted: Wanted = {},
): Promise<T> {
  return inTurn(() => once(options, use, wanted), { through: true })
}

/** A store is opened by its first use: one that is refused has done nothing. */
async function once<T>(
  options: PlaceOptions,
  use: (place: Target) => Promise<T>,
  wanted: Wanted,
): Promise<T> {
  const place = await openPlace(options, wanted)
  try {
    return await use(place)
  } catch (error) {
    throw await advised(await place.explain(error), place)
  } finally {
    await place.close()
  }
}

export async function openPlace(options: PlaceOptions, { make = false }: Wanted = {}): Promise<Target> {
  const server = await serverFor(options)
  if (server !== null) return server
  // Imported only here: a database comes with it, and a command through a server needs none.
  const { openStore } = await import("./store.ts")
  return openStore({
    location: make ? storeLocation(options) : existingStore(options),
    owner: options.owner,
    modules: options,
    flags: storeFlags(options),
  })
}

/** null: the place is a store that this process opens. */
export async function serverFor(options: PlaceOptions): Promise<Target | null> {
  const { server, owner, verbose } = options
  const isStore = options.dataDir !== undefined || options.databaseUrl !== undefined
  const url = server ?? (isStore ? undefined : process.env.UMBRA_SERVER || undefined)
  if (url !== undefined) {
    if (owner !== undefined)
      throw new UmbraError(
        "E604",
        "--owner is for a folder or a database; on a server the token says whose it is.",
      )
    const flags = server === undefined ? "" : ` --server ${server}`
    return atAddress({ url, flags, ...(await tokenFor(options)) })
  }
  const location = storeLocation(options)
  const found = isPostgres(location) ? null : await findServer(location)
  if (found === null) return null
  if (verbose || process.stderr.isTTY)
    process.stderr.write(
      paintFor(process.stderr).dim(`Through the server at ${found.url}, which has ${location}.\n`),
    )
  return openServer({
    url: found.url,
    // Whoever watches may outlive the server's present start, and its token. At another address it is another server's.
    token: async () => {
      const now = await findServer(location).catch(() => null)
      return now?.url === found.url ? now.token : found.token
    },
    tokenFrom: `the server.json in ${location}`,
    flags: storeFlags(options),
    ...(owner === undefined ? {} : { owner }),
  })
}

function atAddress(address: ServerAddress): Target {
  try {
    return openServer(address)
  } catch (error) {
    if (error instanceof UmbraClientError) throw new UmbraError("E651", error.message, { cause: error })
    throw error
  }
}

/** By file or by variable: what is typed stays in the shell's history, and in the list of processes. */
async function tokenFor({ tokenFile }: PlaceOptions): Promise<Pick<ServerAddress, "token" | "tokenFrom">> {
  const token = (tokenFile === undefined ? process.env.UMBRA_TOKEN : (await readText(tokenFile)).text)?.trim()
  if (!token) return {}
  const tokenFrom = tokenFile ?? "UMBRA_TOKEN"
  // As a header holds it; otherwise fetch complains in words that show the token.
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new UmbraError(
      "E604",
      `${tokenFrom} holds no token: one looks like umbra_ and 43 letters, digits, - and _.`,
    )
  return { token, tokenFrom }
}
