-- Source: an engineer's shim for captures of CCAP cores, given to the project with the facts on DOCSIS; unchanged below.
-- tshark shim: L2TPv3 DOCSIS PSP pseudowire (PW type 13) -> DOCSIS MAC frames (built-in 'docsis' dissector is the oracle)
-- use: tshark -X lua_script:depi_psp.lua -o l2tp.l2_specific:none -o l2tp.cookie_size:None ...
local p = Proto("depi_psp","DEPI/UEPI PSP sublayer")
local f = { v=ProtoField.bool("depi_psp.v","V",8,nil,0x80), s=ProtoField.bool("depi_psp.s","S",8,nil,0x40), h=ProtoField.uint8("depi_psp.h","H",base.HEX,nil,0x30),
 flow=ProtoField.uint8("depi_psp.flow","Flow ID",base.DEC,nil,0x0e), n=ProtoField.uint8("depi_psp.segcount","Segment count",base.DEC,nil,0x7f), seq=ProtoField.uint16("depi_psp.seq","Sequence"),
 b=ProtoField.bool("depi_psp.seg.b","Begin",16,nil,0x8000), e=ProtoField.bool("depi_psp.seg.e","End",16,nil,0x4000), len=ProtoField.uint16("depi_psp.seg.len","Length",base.DEC,nil,0x3fff),
 x=ProtoField.uint16("depi_psp.chan","Channel/profile word (observed on PSP-DEPI, subtype 4)",base.HEX), frag=ProtoField.bytes("depi_psp.frag","Partial segment") }
p.fields = f
local docsis = Dissector.get("docsis")
function p.dissector(tvb,pinfo,tree)
  local n = bit.band(tvb(1,1):uint(),0x7f); local t = tree:add(p,tvb(0,4+2*n))
  t:add(f.v,tvb(0,1)) t:add(f.s,tvb(0,1)) t:add(f.h,tvb(0,1)) t:add(f.flow,tvb(0,1)) t:add(f.n,tvb(1,1)) t:add(f.seq,tvb(2,2))
  local o,sum = 4,0; local segs={}
  for i=1,n do local w=tvb(o,2):uint(); t:add(f.b,tvb(o,2)) t:add(f.e,tvb(o,2)) t:add(f.len,tvb(o,2)); segs[i]=w; sum=sum+bit.band(w,0x3fff); o=o+2 end
  local extra = tvb:len()-o-sum
  if extra>=2 and docsis then t:add(f.x,tvb(o,2)); o=o+2 end
  for i=1,n do local l=bit.band(segs[i],0x3fff)
    if bit.band(segs[i],0xc000)==0xc000 and l>=6 and extra>=2 or (bit.band(segs[i],0xc000)==0xc000 and l>=6 and (tvb(o,1):uint()==0xc2 or tvb(o,1):uint()<0x40 and tvb(o+2,2):uint()+6==l)) then docsis:call(tvb(o,l):tvb(),pinfo,tree)
    else t:add(f.frag,tvb(o,l)) end
    o=o+l end
end
local tab = DissectorTable.get("l2tp.pw_type")
tab:add(13,p)  -- learned from ICRQ/ICRP
tab:add(0,p)   -- no control plane in capture
tab:add(2,p)
