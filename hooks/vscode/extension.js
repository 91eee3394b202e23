// Starts `git agent-undo lsp` for the files of a window; docs/editors.md says what it shows.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

// The settings that the server takes, and whether the person trusts the folder.
function settings() {
  const found = vscode.workspace.getConfiguration("gitshadow");
  const taken = ["lens", "hints", "unreviewed"].map((name) => [name, found.get(name)]);
  return { ...Object.fromEntries(taken), trusted: vscode.workspace.isTrusted };
}

async function activate(context) {
  const command = vscode.workspace.getConfiguration("gitshadow").get("command");
  client = new LanguageClient(
    "gitshadow",
    { command, args: ["lsp"] },
    { documentSelector: [{ scheme: "file" }], initializationOptions: settings },
  );
  const changed = () =>
    client.sendNotification("workspace/didChangeConfiguration", {
      settings: { gitshadow: settings() },
    });
  context.subscriptions.push(
    vscode.workspace.onDidGrantWorkspaceTrust(changed),
    vscode.workspace.onDidChangeConfiguration(
      (event) => event.affectsConfiguration("gitshadow") && changed(),
    ),
  );
  await client.start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
