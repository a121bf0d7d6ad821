import { describe, expect, it } from "vitest"
import { readLocation } from "../../src/artifacts/s3/location.ts"

const keys = { AWS_ACCESS_KEY_ID: "an-id", AWS_SECRET_ACCESS_KEY: "a-secret" }

describe("the location of a bucket", () => {
  it.each([
    ["s3://media", {}, "https://media.s3.us-east-1.amazonaws.com", "us-east-1", ""],
    [
      "s3://media/",
      { AWS_REGION: "eu-central-1" },
      "https://media.s3.eu-central-1.amazonaws.com",
      "eu-central-1",
      "",
    ],
    ["s3://media/a/b/", { AWS_DEFAULT_REGION: "x-1" }, "https://media.s3.x-1.amazonaws.com", "x-1", "a/b/"],
    ["s3://me.dia/a", {}, "https://s3.us-east-1.amazonaws.com/me.dia", "us-east-1", "a/"],
    [
      "s3://media/a",
      { AWS_ENDPOINT_URL: "http://127.0.0.1:9000/" },
      "http://127.0.0.1:9000/media",
      "us-east-1",
      "a/",
    ],
    [
      "s3://media/a",
      { AWS_ENDPOINT_URL_S3: "https://s3.example.org/gate", AWS_ENDPOINT_URL: "http://127.0.0.1:1" },
      "https://s3.example.org/gate/media",
      "us-east-1",
      "a/",
    ],
    [
      "s3://media?endpoint=https://s3.example.org&region=auto&path_style=no",
      { AWS_ENDPOINT_URL_S3: "http://127.0.0.1:1", AWS_REGION: "other" },
      "https://media.s3.example.org",
      "auto",
      "",
    ],
    ["s3://media?path_style=yes", {}, "https://s3.us-east-1.amazonaws.com/media", "us-east-1", ""],
  ])("is read from %s and %o", (location, environment, url, region, prefix) => {
    expect(readLocation(location, { ...keys, ...environment })).toMatchObject({ url, region, prefix })
  })

  it("takes the session token of temporary credentials", () => {
    const { credentials } = readLocation("s3://media", { ...keys, AWS_SESSION_TOKEN: "a-token" })
    expect(credentials).toEqual({
      accessKeyId: "an-id",
      secretAccessKey: "a-secret",
      sessionToken: "a-token",
    })
  })

  it.each([
    ["s3://media", { AWS_ACCESS_KEY_ID: "an-id" }, "AWS_SECRET_ACCESS_KEY"],
    ["s3://media", { ...keys, AWS_ACCESS_KEY_ID: " " }, "AWS_ACCESS_KEY_ID"],
    ["s3://", keys, "s3://BUCKET/PREFIX"],
    ["s3://media/a/../b", keys, "s3://BUCKET/PREFIX"],
    ["s3://media?color=red", keys, '"color"'],
    ["s3://media?path_style=perhaps", keys, "path_style"],
    ["s3://media", { ...keys, AWS_ENDPOINT_URL_S3: "127.0.0.1:9000" }, "AWS_ENDPOINT_URL_S3"],
    ["s3://media", { ...keys, AWS_ENDPOINT_URL_S3: "http://u:hidden@h" }, "without credentials"],
    ["s3://an-id:hidden@media", keys, "no credentials"],
  ])("is refused with the cure: %s with %o", (location, environment, cure) => {
    const read = () => readLocation(location, environment)
    expect(read).toThrow(expect.objectContaining({ code: "E620", message: expect.stringContaining(cure) }))
    expect(read).not.toThrow(/hidden|a-secret/)
  })
})
