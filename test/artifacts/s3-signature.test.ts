/** The examples of "Signature Calculations for the Authorization Header" and "… Using Query Parameters" in the API reference of S3. */
import { describe, expect, it } from "vitest"
import { type Signable, sign } from "../../src/artifacts/s3/sign.ts"

const location = {
  url: "https://examplebucket.s3.amazonaws.com",
  prefix: "",
  region: "us-east-1",
  credentials: {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    sessionToken: undefined,
  },
}
const now = new Date("2013-05-24T00:00:00Z")
const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

const examples: readonly (Signable & { readonly name: string; readonly signature: string })[] = [
  {
    name: "GET an object, with a range",
    method: "GET",
    key: "test.txt",
    headers: { range: "bytes=0-9", "x-amz-content-sha256": empty },
    signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  },
  {
    name: "PUT an object",
    method: "PUT",
    key: "test$file.text",
    headers: {
      date: "Fri, 24 May 2013 00:00:00 GMT",
      "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
      "x-amz-storage-class": "REDUCED_REDUNDANCY",
    },
    signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  },
  {
    name: "GET the lifecycle of a bucket",
    method: "GET",
    query: { lifecycle: "" },
    headers: { "x-amz-content-sha256": empty },
    signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  },
  {
    name: "list objects",
    method: "GET",
    query: { "max-keys": "2", prefix: "J" },
    headers: { "x-amz-content-sha256": empty },
    signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  },
]

describe("signature version 4", () => {
  it.each(examples)("is that of AWS's example: $name", async ({ signature, ...request }) => {
    const { headers } = await sign(location, request, { now })
    expect(headers.authorization).toContain(
      "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request",
    )
    expect(headers.authorization?.split("Signature=")[1]).toBe(signature)
  })

  it("is that of AWS's example of a URL that is valid for a day", async () => {
    const request = { method: "GET", key: "test.txt", query: { "X-Amz-Expires": "86400" } }
    const { url } = await sign(location, request, { now, inQuery: true })
    expect(url.searchParams.get("X-Amz-Signature")).toBe(
      "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    )
  })
})
