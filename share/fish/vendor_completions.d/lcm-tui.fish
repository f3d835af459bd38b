function _lcm_tui_completion;
    set -l response (env _LCM_TUI_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) lcm-tui 2>/dev/null);

    for completion in $response;
        set -l metadata (string split --max 1 "," $completion);

        if test $metadata[1] = "dir";
            __fish_complete_directories $metadata[2];
        else if test $metadata[1] = "file";
            set -l option (string match -r -- '^--[^=]*=' (commandline -t); or echo); string join \n -- $option(__fish_complete_path $metadata[2]);
        else if test $metadata[1] = "plain";
            echo $metadata[2];
        end;
    end;
end;

complete --no-files --command lcm-tui --arguments "(_lcm_tui_completion)";

