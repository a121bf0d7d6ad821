/**
 * Name resolution under the address policy. The connection is made to the very address that was checked: a
 * second lookup could return another one (DNS rebinding).
 */
import { lookup } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import { HandlerError } from "../fail.ts"
import type { AddressPolicy } from "./addresses.ts"

/** `resolve` resolves names to addresses: a parameter for tests. */
export function guardedLookup(policy: AddressPolicy, resolve: typeof lookup = lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        callback(error, "", 0)
        return
      }
      const allowed = found.filter(({ address }) => policy.allows(address))
      const [first] = allowed
      if (first === undefined) callback(addressRefused(hostname, found[0]?.address), "", 0)
      else if (options.all) callback(null, allowed)
      else callback(null, first.address, first.family)
    })
  }
}

/** Addresses in the URL itself are not looked up. The URL parser has normalized their notation. */
export function checkHost(url: URL, policy: AddressPolicy): void {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  if (isIP(host) !== 0 && !policy.allows(host)) throw addressRefused(host, host)
}

function addressRefused(host: string, address: string | undefined): HandlerError {
  const what = address === undefined || address === host ? host : `${host} (${address})`
  return new HandlerError(
    `${what} is not a public address, and this worker may not connect to it. To allow it, the operator sets ` +
      "UMBRA_ALLOW_PRIVATE_ADDRESSES=1 (or to the addresses that are allowed).",
    { code: "E412", retryable: false },
  )
}
