// What SillyTavern's page has for extensions.
declare const SillyTavern: { getContext(): any };
declare const toastr: any;
