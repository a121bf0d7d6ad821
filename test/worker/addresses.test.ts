import { describe, expect, it } from "vitest"
import { AddressPolicy, checkHost } from "../../src/worker/http/addresses.ts"
import { HttpClient } from "../../src/worker/http/client.ts"
import { json, serve } from "./server.ts"

const strict = new AddressPolicy(false)

describe("private addresses", () => {
  it.each([
    ...["0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1"],
    ...["172.31.255.255", "192.168.1.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1"],
    ...[
      "::",
      "::1",
      "fe80::1",
      "fe80::1%eth0",
      "fc00::1",
      "fd12:3456::1",
      "ff02::1",
      "2001:db8::1",
      "fec0::1",
    ],
    ...["::ffff:127.0.0.1", "::ffff:7f00:1", "::FFFF:10.0.0.1", "0:0:0:0:0:ffff:c0a8:0101", "::127.0.0.1"],
    ...[
      "64:ff9b::7f00:1",
      "64:ff9b:1::1",
      "2002:7f00:1::",
      "2002:a00:1::5",
      "2001:0:1::1",
      "not an address",
      "",
    ],
  ])("%s is refused", address => {
    expect(strict.allows(address)).toBe(false)
  })

  it.each([
    "8.8.8.8",
    "172.32.0.1",
    "100.63.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
  ])("%s is public", address => {
    expect(strict.allows(address)).toBe(true)
  })

  it.each([
    ...["http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://0/"],
    ...["http://127.0.0.1./", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[0:0:0:0:0:0:0:1]/"],
    ...["http://①②⑦.0.0.1/", "http://0xa9fea9fe/"],
  ])("odd notations do not help: %s", url => {
    expect(() => checkHost(new URL(url), strict)).toThrow(/not a public address/)
  })

  it("the operator may allow all, or ranges", () => {
    expect(new AddressPolicy(true).allows("127.0.0.1")).toBe(true)
    const some = new AddressPolicy(["10.2.0.0/16", "127.0.0.1", "fd00::/8"])
    expect(["10.2.3.4", "::ffff:10.2.3.4", "127.0.0.1", "fd00::1"].map(a => some.allows(a))).toEqual(
      Array(4).fill(true),
    )
    expect(["10.3.0.1", "127.0.0.2", "fc00::1"].map(a => some.allows(a))).toEqual(Array(3).fill(false))
    expect(() => new AddressPolicy(["localhost"])).toThrow(/"localhost" is neither/)
  })

  it("a name is judged by the address that is then connected to", async () => {
    await using server = await serve((_, response) => json(response, "inside"))
    const answers: string[] = []
    const resolving = (address: string) =>
      ((_name: string, _options: object, callback: (error: null, found: object[]) => void) => {
        answers.push(address)
        callback(null, [{ address, family: 4 }])
      }) as never
    const request = {
      method: "GET",
      url: new URL(`http://rebind.test:${server.port}/`),
      headers: {},
      body: undefined,
      timeoutSeconds: 5,
      maxRedirects: 0,
      maxResponseBytes: 1000,
      signal: new AbortController().signal,
    }
    const closed = new HttpClient({ allowPrivateAddresses: false, resolve: resolving("127.0.0.1") })
    await expect(closed.send(request)).rejects.toMatchObject({ code: "E412", retryable: false })
    expect(server.asked).toHaveLength(0)
    const open = new HttpClient({ allowPrivateAddresses: ["127.0.0.1"], resolve: resolving("127.0.0.1") })
    expect((await open.send(request)).body.toString()).toBe('"inside"')
    expect(answers).toEqual(["127.0.0.1", "127.0.0.1"])
  })
})
