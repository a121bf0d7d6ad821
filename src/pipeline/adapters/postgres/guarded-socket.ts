/**
 * A socket that connects only to addresses that the operator allows, for a driver that opens its own
 * connections.
 */
import { isIP, isIPv6, Socket } from "node:net"
import { HandlerError } from "../../../worker/fail.ts"
import { AddressPolicy } from "../../../worker/http/addresses.ts"
import { checkHost, guardedLookup } from "../../../worker/http/connect.ts"
import type { WorkerSettings } from "../../../worker/settings.ts"

type Allowed = WorkerSettings["allowPrivateAddresses"]

/** The driver connects by port and host, or by the path of a local socket. */
export function guardedSocket(allowed: Allowed): () => Socket {
  const policy = new AddressPolicy(allowed)
  const lookup = guardedLookup(policy)
  return () => {
    const socket = new Socket()
    const connect = socket.connect.bind(socket)
    const guarded = (place: number | string, host = "localhost") => {
      const refused = refusal(place, host, policy, allowed)
      // Thrown here, the error would surface inside the driver, which does not expect it.
      if (refused !== undefined) process.nextTick(() => socket.destroy(refused))
      else if (typeof place === "string") connect(place)
      else connect({ port: place, host, lookup })
      return socket
    }
    return Object.assign(socket, { connect: guarded }) as Socket
  }
}

function refusal(
  place: number | string,
  host: string,
  policy: AddressPolicy,
  allowed: Allowed,
): Error | undefined {
  if (typeof place === "string") return allowed === true ? undefined : localSocket(place)
  if (isIP(host) === 0) return undefined
  try {
    checkHost(new URL(`http://${isIPv6(host) ? `[${host}]` : host}`), policy)
    return undefined
  } catch (error) {
    return error as Error
  }
}

function localSocket(path: string): HandlerError {
  return new HandlerError(
    `${path} is a socket of this machine, and this process may not connect to it. To allow it, the operator sets UMBRA_ALLOW_PRIVATE_ADDRESSES=1.`,
    { code: "E412", retryable: false },
  )
}
