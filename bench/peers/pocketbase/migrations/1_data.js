// One collection that everybody may read and write, and requests in batches.
migrate((app) => {
  const everybody = "";
  app.save(
    new Collection({
      type: "base",
      name: "data",
      listRule: everybody,
      viewRule: everybody,
      createRule: everybody,
      updateRule: everybody,
      fields: [
        { type: "text", name: "character", required: true },
        { type: "text", name: "instance", required: true },
        { type: "text", name: "key", required: true },
        { type: "json", name: "value" },
      ],
      indexes: [
        "CREATE UNIQUE INDEX data_of_instance ON data (instance, key)",
        "CREATE INDEX data_of_character ON data (character)",
      ],
    }),
  );

  const settings = app.settings();
  settings.batch.enabled = true;
  // A log of the requests would cost it time that the others do not spend.
  settings.logs.maxDays = 0;
  app.save(settings);

  // Without one, it opens a browser to ask for one.
  const superuser = new Record(app.findCollectionByNameOrId("_superusers"));
  superuser.set("email", "bench@example.com");
  superuser.setRandomPassword();
  app.save(superuser);
});
