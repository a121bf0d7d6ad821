import { defineHandler } from "umbra"

export const echo = defineHandler({ name: "echo", run: config => config })
